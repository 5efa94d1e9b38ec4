#include "colossal/parallel/pipeline/in_flight.h"

#include <algorithm>

namespace colossal::parallel::pipeline {
namespace {

// What an action adds to what is held before the gradient of the input, and after it.
struct Change {
  int activations = 0;
  int weight_gradients = 0;
};

Change change_by(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return {1, 0};
    case ActionKind::backward_input:
      return {-1, 1};
    case ActionKind::backward_weight:
      return {0, -1};
    case ActionKind::backward:
      return {-1, 0};
    default:
      return {};
  }
}

InFlight in_flight_of(const std::vector<Action>& actions) {
  InFlight now, peak;
  for (const Action& action : actions) {
    const Change change = change_by(action.kind);
    now.activations += change.activations;
    now.weight_gradients += change.weight_gradients;
    peak.activations = std::max(peak.activations, now.activations);
    peak.weight_gradients = std::max(peak.weight_gradients, now.weight_gradients);
    peak.held = std::max(peak.held, now.activations + now.weight_gradients);
  }
  return peak;
}

}  // namespace

std::vector<InFlight> in_flight_of_ranks(const Schedule& schedule) {
  std::vector<InFlight> ranks;
  for (const std::vector<Action>& actions : schedule.actions) {
    ranks.push_back(in_flight_of(actions));
  }
  return ranks;
}

std::vector<double> peak_bytes_of_ranks(const Schedule& schedule,
                                        std::span<const StageMemory> stages) {
  std::vector<double> peaks;
  for (const std::vector<Action>& actions : schedule.actions) {
    double bytes = 0, peak = 0;
    for (const Action& action : actions) {
      const Change change = change_by(action.kind);
      const StageMemory& stage = stages[action.stage];
      bytes +=
          change.activations * stage.activations + change.weight_gradients * stage.weight_gradients;
      peak = std::max(peak, bytes);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace colossal::parallel::pipeline
