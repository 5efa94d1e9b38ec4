#include "colossal/parallel/pipeline/costs.h"

#include <algorithm>

namespace colossal::parallel::pipeline {

double Costs::of_computation(const Action& computation) const {
  const StageCosts costs = of_stage(computation.stage);
  switch (computation.kind) {
    case ActionKind::forward:
      return costs.forward;
    case ActionKind::backward_input:
      return costs.input_gradient;
    case ActionKind::backward_weight:
      return costs.weight_gradient;
    case ActionKind::backward:
      return costs.input_gradient + costs.weight_gradient;
    default:
      return 0;
  }
}

bool Costs::equal_stages() const {
  return std::ranges::all_of(stages,
                             [&](const StageCosts& one) { return one == stages.front(); }) &&
         std::ranges::all_of(messages, [](double seconds) { return seconds == 0; });
}

double message_seconds(double bytes, double latency, double bandwidth) {
  return latency + bytes / bandwidth;
}

}  // namespace colossal::parallel::pipeline
