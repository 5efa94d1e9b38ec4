// The times that the computations and messages of a pipeline take, measured or estimated. The
// simulator and the schedules that adapt to costs read them.
#pragma once

#include <optional>
#include <vector>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Times of one micro-batch in one stage. All times of a Costs have one unit, seconds or any other;
// simulated times have this unit, too.
struct StageCosts {
  double forward = 1;
  double input_gradient = 1;   // part of the backward pass
  double weight_gradient = 1;  // part of the backward pass

  double total() const { return forward + input_gradient + weight_gradient; }
  bool operator==(const StageCosts&) const = default;
};

struct Costs {
  std::vector<StageCosts> stages;  // [stages]; empty: StageCosts{} for each stage
  // [stages - 1]: time of a message between stages s and s + 1, the same in both directions. Empty:
  // messages take no time. message_seconds() computes a time from bytes.
  std::vector<double> messages;
  // The time of a pair of computations that may run at the same time (Action::overlaps_next),
  // divided by the sum of their times. nullopt: the two run one after the other.
  std::optional<double> overlapped_share;

  StageCosts of_stage(int stage) const { return stages.empty() ? StageCosts{} : stages[stage]; }
  // Returns the time of a message between stages `boundary` and `boundary` + 1.
  double of_boundary(int boundary) const { return messages.empty() ? 0 : messages[boundary]; }
  // Returns the time of a computation; 0 for a send or receive.
  double of_computation(const Action& computation) const;

  // Returns whether all stages have equal costs and messages take no time.
  bool equal_stages() const;
};

// Returns the time of a message in seconds: latency + bytes / bandwidth. latency: in seconds;
// bandwidth: in bytes per second.
double message_seconds(double bytes, double latency, double bandwidth);

}  // namespace colossal::parallel::pipeline
