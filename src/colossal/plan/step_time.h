// Predicts how long a training step takes on a cluster, from recordings of the step. Nothing but
// time is modelled: operators, calls and their sizes are those of the recordings.
//
// An operator takes ClusterSpecification::device.operator_seconds, and:
//   a product              flops / (products * n / (n + half_rate_size)), where n is the smallest
//                          side of the product; plus logits / device.logits
//   attention              flops / attention, or flops / attention_backward
//   any other operator     bytes / elements
// with the rates of its type. A rank of a CPU has the rates of its threads' cores, but not of more
// cores than its host has for it. A call takes
//   latency * ceil(log2(group size)) + bytes / bandwidth
// where the bytes are those of the law. If the group spans hosts, it takes the network's latency,
// and the longer of the times within hosts and between them; the ranks of a host share its
// network. An asynchronous call delays the rank by the share 1 - overlap of its time at once, and
// by the rest at the wait for it, as far as that is not over.
//
// In a pipeline, the simulator (parallel/pipeline/simulator.h) combines the ranks. If the ranks of
// a host have more threads than it has cores, they compute faster while some of them wait for other
// stages.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "colossal/job/job.h"
#include "colossal/plan/cluster_specification.h"
#include "colossal/plan/recorded_step.h"

namespace colossal::plan {

// What a rank does with its time, in seconds.
struct TimeShares {
  double products = 0, attention = 0, other_operators = 0, update = 0;
  std::map<std::string, double> communication;  // by axis: what computation does not hide
  double tiers = 0;                             // transfers to and from the host and NVMe

  double total() const;
  TimeShares& operator+=(const TimeShares& other);
  TimeShares scaled(double factor) const;
};

// The time of one rank's step, without waits for other stages of a pipeline.
struct RankSeconds {
  int rank = 0;  // global rank
  struct OfAction {
    parallel::pipeline::Action action;
    int64_t times = 0;          // number of actions of the step for which it stands
    int64_t message_bytes = 0;  // of a send: the bytes of its message
    TimeShares seconds;         // of one of them; 0 for sends and receives
  };
  std::vector<OfAction> actions;
  TimeShares rest;  // after the last action: the rest of the reductions, and the update

  TimeShares total() const;  // of all actions and the rest
};

// Returns the time of a recorded step. rank: global rank of the recorded rank. Throws ConfigError
// if `cluster` lacks a rate that the step needs; the message names its key. is_free: calls for
// which it returns true take no time.
RankSeconds seconds_of(const RecordedStep& step, const Job& job, int rank,
                       const ClusterSpecification& cluster,
                       const std::function<bool(const Collective&)>& is_free = {});

struct StepTime {
  double seconds = 0;        // of a step
  TimeShares shares;         // of the rank that computes and communicates longest
  double pipeline_wait = 0;  // what is left of `seconds` for this rank: its waits for other stages
};

// Returns the time of a step of the job. ranks: the recorded ranks, at least one of the first, one
// of the last and one other coordinate along pp. Of the other coordinates, stages that were not
// recorded count as proportional to their blocks. A model of two towers with several micro-batches
// computes their forward passes once more before the first backward pass
// (engine/contrastive_loss.h), which the recording leaves out.
StepTime step_time(const std::vector<RankSeconds>& ranks, const Job& job,
                   const ClusterSpecification& cluster);

}  // namespace colossal::plan
