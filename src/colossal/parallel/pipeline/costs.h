// How long the computations and messages of a pipeline take: measured, or estimated by a plan.
#pragma once

#include <optional>
#include <vector>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Times of one micro-batch in one stage, in seconds or any other unit; simulated times have the
// same unit.
struct StageCosts {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;

  double total() const { return forward + input_gradient + weight_gradient; }
  bool operator==(const StageCosts&) const = default;
};

struct Costs {
  std::vector<StageCosts> stages;  // [stages]; empty: StageCosts{} for each stage
  // [stages - 1]: time of a message across each boundary between two stages, the same in both
  // directions; empty: messages take no time. message_seconds() computes a time from bytes.
  std::vector<double> messages;
  // A pair of computations that may run at the same time (Action::overlaps_next) takes this share
  // of the sum of their times. nullopt: the two run one after the other.
  std::optional<double> overlapped_share;

  StageCosts of_stage(int stage) const { return stages.empty() ? StageCosts{} : stages[stage]; }
  double of_boundary(int boundary) const { return messages.empty() ? 0 : messages[boundary]; }
  double of_computation(const Action& computation) const;

  // Whether all stages cost the same and messages take no time.
  bool equal_stages() const;
};

// Returns the time of a message of `bytes` bytes. latency: seconds; bandwidth: bytes per second.
double message_seconds(double bytes, double latency, double bandwidth);

}  // namespace colossal::parallel::pipeline
