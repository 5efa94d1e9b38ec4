#include "colossal/parallel/pipeline/in_flight.h"

#include <algorithm>

namespace colossal::parallel::pipeline {
namespace {

// How an action changes the number of micro-batches whose activations a rank holds: those that wait
// for the input gradient, and those that wait only for the weight gradient.
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

// Counts what a rank holds while it carries out its actions.
class HeldState {
 public:
  HeldState(const Schedule& schedule, int rank)
      : schedule_(schedule), first_(schedule.num_stages()) {
    size_t stages = 0;
    for (int stage = 0; stage < schedule.num_stages(); ++stage) {
      if (schedule.rank_of_stage[stage] == rank) first_[stage] = kKinds * stages++;
    }
    counts_.resize(kKinds * stages + 1);
  }

  void carry_out(const Action& action) {
    if (action.micro_batch + 1 == schedule_.num_micro_batches) counts_.back() = 1;
    const Change change = change_by(action.kind);
    at(action.stage, kActivations) += change.activations;
    at(action.stage, kWeightGradients) += change.weight_gradients;
    if (is_receive(action.kind)) ++at(action.stage, asked_for(is_forward(action.kind)));
    if (action.kind == ActionKind::forward) pass_on(action, action.stage - 1, action.stage + 1);
    if (computes_input_gradient(action.kind)) pass_on(action, action.stage + 1, action.stage - 1);
  }

  const std::vector<int>& counts() const { return counts_; }

 private:
  enum Kind {
    kActivations,
    kWeightGradients,
    kForwardAskedFor,
    kBackwardAskedFor,
    kForwardHere,
    kBackwardHere,
    kKinds
  };

  static Kind asked_for(bool forward) { return forward ? kForwardAskedFor : kBackwardAskedFor; }

  // Uses the input from stage `from` and leaves an output for stage `to`, if these stages exist.
  void pass_on(const Action& computation, int from, int to) {
    const bool forward = is_forward(computation.kind);
    const Kind here = forward ? kForwardHere : kBackwardHere;
    if (receive_before(schedule_, computation)) {
      --at(computation.stage, asked_for(forward));
    } else if (is_stage(from)) {
      --at(from, here);
    }
    if (is_stage(to) && !send_after(schedule_, computation)) ++at(computation.stage, here);
  }

  bool is_stage(int stage) const { return 0 <= stage && stage < schedule_.num_stages(); }
  int& at(int stage, Kind kind) { return counts_[first_[stage] + kind]; }

  const Schedule& schedule_;
  std::vector<size_t> first_;  // by stage, if it is of this rank: where its counts begin
  std::vector<int> counts_;
};

}  // namespace

std::vector<std::set<std::vector<int>>> held_states_of_ranks(const Schedule& schedule) {
  std::vector<std::set<std::vector<int>>> ranks;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    HeldState state(schedule, rank);
    std::set<std::vector<int>>& all = ranks.emplace_back();
    for (const Action& action : schedule.actions[rank]) {
      state.carry_out(action);
      all.insert(state.counts());
    }
  }
  return ranks;
}

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
