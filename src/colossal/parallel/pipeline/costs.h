// How long the parts of a pipeline take: measured, or priced by a plan.
#pragma once

#include <optional>
#include <vector>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// The costs of one micro-batch in one stage, in seconds (or any unit: results have the same).
struct StageCosts {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;

  double total() const { return forward + input_gradient + weight_gradient; }
  bool operator==(const StageCosts&) const = default;
};

struct Costs {
  std::vector<StageCosts> stages;  // [stages]; empty: 1 for each part of each stage
  // The time of the message over each boundary between two stages, in either direction, [stages -
  // 1]; empty: messages take no time. message_seconds() computes a time from bytes.
  std::vector<double> messages;
  // Where computations may run at the same time (Action::overlaps_next), the two take this share of
  // what they take one after the other. None: they run one after the other.
  std::optional<double> overlapped_share;

  StageCosts of_stage(int stage) const { return stages.empty() ? StageCosts{} : stages[stage]; }
  double of_boundary(int boundary) const { return messages.empty() ? 0 : messages[boundary]; }
  double of_computation(const Action& computation) const;

  // Whether the stages cost the same and messages take no time, as orders written by hand assume.
  bool equal_stages() const;
};

// Latency in seconds, bandwidth in bytes a second.
double message_seconds(double bytes, double latency, double bandwidth);

}  // namespace colossal::parallel::pipeline
