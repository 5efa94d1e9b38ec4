// Predicts what a step of a run costs, before the run starts: the bytes sent, memory, FLOPs and
// communication partners of ranks. The costs come from dry runs of a step (recorded_step.h) of some
// ranks; all other ranks cost at most as much. Used by `colossal plan` and fit_memory().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "colossal/job/job.h"
#include "colossal/plan/cluster_specification.h"
#include "colossal/plan/recorded_step.h"
#include "colossal/plan/step_time.h"

namespace colossal::plan {

// The costs of one rank in one step.
struct RankPlan {
  int rank = 0;  // global rank
  // Of a plan for a cluster: the time of the rank's step.
  std::optional<RankSeconds> seconds;
  int64_t parameters = 0;  // number of parameter elements that the rank holds
  double flops = 0;        // of matrix products and attention (flops.h)
  // Bytes that the rank sends, by axis and reason, computed by the laws.
  std::map<comm::Ledger::Key, int64_t> sent;
  // Bytes of tensors on the device by kind, at the moment when their sum is largest.
  memory::BytesByKind memory_at_peak;
  // Bytes that the forward pass of one micro-batch through one stage keeps for the backward pass;
  // the maximum over the rank's stages and micro-batches.
  int64_t activation_bytes = 0;
  // Bytes written to and read from tiers other than the device.
  memory::TierPools::Traffic tier_traffic;
  // For each tier other than the device: the bytes that it stores, by kind, at the moment when
  // their sum is largest.
  std::map<memory::Tier, memory::BytesByKind> at_rest;
  // Number of other ranks with which this rank exchanges bytes, by axis.
  std::map<std::string, int> partners;
  int all_partners = 0;  // number of such ranks over all axes; each rank counts once
  // As all_partners, without ranks with which it exchanges only bytes for control and metrics.
  int training_partners = 0;

  int64_t bytes_sent() const;  // sum of `sent`
  int64_t memory_peak_bytes() const { return memory_at_peak.total(); }
  // Returns the most bytes that the tier (host or NVMe) stores.
  int64_t bytes_at_rest(memory::Tier tier) const { return at_rest.at(tier).total(); }
  // Returns the bytes written to and read from the tier (host or NVMe), added up.
  int64_t tier_bytes(memory::Tier tier) const;
};

// Returns the plan of a rank from the recording of its step. A recording may have only some
// micro-batches of the step: the one with index step.middle stands for step.middle_repeats equal
// micro-batches, itself included. Its FLOPs, bytes sent and tier traffic count as many times. rank:
// global rank.
RankPlan plan_of(const RecordedStep& step, int rank);

// Returns the plan of a rank from a dry run of the job. cluster: as for make_plan().
// most_micro_batches: see record_step().
RankPlan recorded_rank(const Job& job, int rank, const ClusterSpecification* cluster,
                       std::optional<int64_t> most_micro_batches = std::nullopt);

// Returns recorded_rank() of each of these ranks, recorded on at most as many threads as this
// process may use cores. Calls memory::install_allocators().
std::vector<RankPlan> record_ranks(const Job& job, const std::vector<int>& ranks,
                                   const ClusterSpecification* cluster = nullptr);

struct Plan {
  std::vector<RankPlan> ranks;   // of the recorded ranks (ranks_to_record()), ascending
  std::optional<StepTime> time;  // of a plan for a cluster: of a step
  int64_t checkpoint_bytes = 0;  // of a checkpoint: weights, masters and optimizer state
  double seconds = 0;            // time that it took to make the plan

  // Returns the plan of the rank with the largest peak memory on the device; the first if several
  // are equal.
  const RankPlan& rank_with_largest_peak() const;
};

// Returns the ranks that make_plan() records, ascending. They are chosen so that, for each cost in
// RankPlan, the maximum over these ranks is the maximum over all ranks. Recorded are the ranks
// whose coordinate is, along each axis:
//   pp                               any
//   dp                               the first or the last (the largest and the smallest shard)
//   sp, tp in mode 1d                the first or the last; any if heads or tokens do not divide
//                                    evenly
//   each axis of tp in 2d, 2.5d, 3d  the first, the second or the last
// In addition, if the numbers of tokens per expert are known (Strategy::expert_rows): for each
// coordinate along pp, the rank whose experts have most tokens.
std::vector<int> ranks_to_record(const Job& job);

// Returns the plan of a job. Records several ranks at once, on at most as many threads as this
// process may use cores. Calls memory::install_allocators(): unless the process has called that
// function already, call make_plan() before other threads allocate memory.
//
// cluster: the machines on which the job will run; null: the plan predicts no times. Throws
// ConfigError if it lacks a rate that the step needs.
Plan make_plan(const Job& job, const ClusterSpecification* cluster = nullptr);

// Returns the ranks that rank_with_largest_peak() records: one of them has the largest peak memory.
std::vector<int> ranks_with_peaks(const Job& job);
// Returns make_plan(job).rank_with_largest_peak(), but records fewer ranks where that is enough for
// the largest peak memory. Also calls memory::install_allocators().
RankPlan rank_with_largest_peak(const Job& job);

}  // namespace colossal::plan
