// zb-h1 and zb-h2: one stage per rank, backward is split.
#include <algorithm>

#include "colossal/parallel/pipeline/list_scheduler.h"
#include "colossal/parallel/pipeline/schedule_functions.h"

namespace colossal::parallel::pipeline {
namespace {

// Returns `first` forwards; then repeatedly an input gradient, a weight gradient (from input
// gradient number `weights_from` on) and a forward, if any is left; then the other weight
// gradients.
std::vector<Action> split_order(int stage, int num_micro_batches, int first, int weights_from) {
  std::vector<Action> actions;
  int forwards = 0, weights = 0;
  const auto forward = [&] { actions.push_back({ActionKind::forward, stage, forwards++}); };
  const auto weight = [&] { actions.push_back({ActionKind::backward_weight, stage, weights++}); };
  while (forwards < std::min(first, num_micro_batches)) forward();
  for (int i = 0; i < num_micro_batches; ++i) {
    actions.push_back({ActionKind::backward_input, stage, i});
    if (i >= weights_from) weight();
    if (forwards < num_micro_batches) forward();
  }
  while (weights < num_micro_batches) weight();
  return actions;
}

// Returns the handmade order if all stages cost the same: it reaches the published bubble.
// Otherwise returns the best order of the list scheduler with as many activations in flight.
Schedule fitted_to_costs(Schedule by_hand, const Costs& costs, int in_flight, int buffers) {
  if (costs.equal_stages()) return by_hand;
  return list_schedule(by_hand, costs, in_flight, buffers);
}

}  // namespace

Schedule zero_bubble_h1(const PipelineShape& shape, const Costs& costs) {
  Schedule schedule = empty_schedule(shape, looping_placement(shape.num_ranks, 1));
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.actions[rank] =
        split_order(rank, shape.num_micro_batches, shape.num_ranks - rank, rank);
  }
  return fitted_to_costs(std::move(schedule), costs, shape.num_ranks, shape.buffers);
}

Schedule zero_bubble_h2(const PipelineShape& shape, const Costs& costs) {
  Schedule schedule = empty_schedule(shape, looping_placement(shape.num_ranks, 1));
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.actions[rank] =
        split_order(rank, shape.num_micro_batches, 2 * (shape.num_ranks - rank) - 1, 2 * rank);
  }
  return fitted_to_costs(std::move(schedule), costs, 2 * shape.num_ranks - 1, shape.buffers);
}

}  // namespace colossal::parallel::pipeline
