// Schedules with whole backward passes: gpipe, 1f1b, interleaved.
#include <algorithm>

#include "colossal/parallel/pipeline/schedule_functions.h"

namespace colossal::parallel::pipeline {
namespace {

// Returns computation number `number` of a rank, which computes a group of num_ranks micro-batches
// in each of its chunks before the next group. Backward goes from the last chunk to the first.
Action interleaved_computation(ActionKind kind, const PipelineShape& shape, int rank, int number) {
  const int group = shape.num_ranks * shape.chunks;
  const int turn = number % group / shape.num_ranks;
  const int chunk = kind == ActionKind::forward ? turn : shape.chunks - 1 - turn;
  const int micro_batch = number / group * shape.num_ranks + number % shape.num_ranks;
  return {kind, chunk * shape.num_ranks + rank, micro_batch};
}

}  // namespace

Schedule gpipe(const PipelineShape& shape, const Costs&) {
  Schedule schedule = empty_schedule(shape, looping_placement(shape.num_ranks, 1));
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward}) {
      for (int i = 0; i < shape.num_micro_batches; ++i) {
        schedule.actions[rank].push_back({kind, rank, i});
      }
    }
  }
  return schedule;
}

Schedule one_forward_one_backward(const PipelineShape& shape, const Costs&) {
  Schedule schedule = empty_schedule(shape, looping_placement(shape.num_ranks, 1));
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    const int first = std::min(shape.num_ranks - rank - 1, shape.num_micro_batches);
    for (int i = 0; i < first + shape.num_micro_batches; ++i) {
      std::vector<Action>& actions = schedule.actions[rank];
      if (i < shape.num_micro_batches) actions.push_back({ActionKind::forward, rank, i});
      if (i >= first) actions.push_back({ActionKind::backward, rank, i - first});
    }
  }
  return schedule;
}

Schedule interleaved(const PipelineShape& shape, const Costs&) {
  // Builds whole groups of micro-batches; the end of the function removes the micro-batches that do
  // not exist.
  const int groups = (shape.num_micro_batches + shape.num_ranks - 1) / shape.num_ranks;
  const int computations = groups * shape.num_ranks * shape.chunks;
  Schedule schedule = empty_schedule(shape, looping_placement(shape.num_ranks, shape.chunks));
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    const int ahead = 2 * (shape.num_ranks - rank - 1) + (shape.chunks - 1) * shape.num_ranks;
    const int first = std::min(ahead, computations);
    for (int i = 0; i < first + computations; ++i) {
      std::vector<Action>& actions = schedule.actions[rank];
      if (i < computations) {
        actions.push_back(interleaved_computation(ActionKind::forward, shape, rank, i));
      }
      if (i >= first) {
        actions.push_back(interleaved_computation(ActionKind::backward, shape, rank, i - first));
      }
    }
  }
  return first_micro_batches(std::move(schedule), shape.num_micro_batches);
}

}  // namespace colossal::parallel::pipeline
