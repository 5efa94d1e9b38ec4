// zb-v, v-half, v-min: two chunks per rank, placed as a V; backward is split.
//
// Each schedule repeats a building block, which contains the computations of one micro-batch on all
// ranks. The period is six units of time: per micro-batch a rank computes a forward, an input
// gradient and a weight gradient of two stages. The building block determines how long a rank holds
// a micro-batch, and so how many are in flight. Weight gradients fill the units in which a rank is
// free. Then the list scheduler closes gaps, mainly at the beginning and at the end, with the real
// costs; it keeps the maximum number in flight.
#include <algorithm>

#include "colossal/parallel/pipeline/in_flight.h"
#include "colossal/parallel/pipeline/list_scheduler.h"
#include "colossal/parallel/pipeline/schedule_functions.h"

namespace colossal::parallel::pipeline {
namespace {

constexpr int kPeriod = 6;

// When a rank begins its computations of micro-batch 0, in units of time.
struct BuildingBlock {
  int forward_down;   // forward of the stage on the way down the ranks
  int forward_up;     // forward of the stage on the way up
  int backward_down;  // input gradient of the stage on the way up: gradients go down first
  int backward_up;
};

BuildingBlock zb_v_block(int num_ranks, int rank) {
  const int last = num_ranks - 1;
  return {4 * rank, 6 * last + 1 - 2 * rank, 6 * last + 2 + 4 * rank, 12 * last + 3 - 2 * rank};
}

// In the next two blocks, backward begins `later` units later if two computations of a rank would
// otherwise fall into the same unit.
BuildingBlock v_half_block(int num_ranks, int rank) {
  const int later = num_ranks % 2 == 0 ? 3 : 0;
  return {2 * rank, 3 * num_ranks - 2 - rank, 3 * num_ranks - 1 + later + 2 * rank,
          6 * num_ranks - 2 + later - rank};
}

BuildingBlock v_min_block(int num_ranks, int rank) {
  const int later = num_ranks % 3 == 0 ? 2 : 0;
  return {rank, 2 * num_ranks - 1 - rank, 2 * num_ranks + later + rank,
          4 * num_ranks - 1 + later - rank};
}

struct TimedAction {
  int time;
  Action action;
};

// Returns the forwards and input gradients of a rank in the order of time.
std::vector<TimedAction> repeated(const BuildingBlock& block, const PipelineShape& shape,
                                  int rank) {
  const int down = rank, up = 2 * shape.num_ranks - 1 - rank;
  std::vector<TimedAction> timed;
  for (int i = 0; i < shape.num_micro_batches; ++i) {
    const int begin = kPeriod * i;
    timed.push_back({begin + block.forward_down, {ActionKind::forward, down, i}});
    timed.push_back({begin + block.forward_up, {ActionKind::forward, up, i}});
    timed.push_back({begin + block.backward_down, {ActionKind::backward_input, up, i}});
    timed.push_back({begin + block.backward_up, {ActionKind::backward_input, down, i}});
  }
  std::ranges::sort(timed, {}, &TimedAction::time);
  return timed;
}

// Inserts the weight gradients into free units of time, oldest first.
std::vector<Action> with_weight_gradients(const std::vector<TimedAction>& timed) {
  std::vector<Action> actions, waiting;
  size_t next = 0;
  const auto fill = [&](int units) {
    for (; units > 0 && next < waiting.size(); --units) actions.push_back(waiting[next++]);
  };
  int free_from = 0;
  for (const TimedAction& one : timed) {
    fill(one.time - free_from);
    free_from = one.time + 1;
    actions.push_back(one.action);
    if (one.action.kind != ActionKind::backward_input) continue;
    waiting.push_back({ActionKind::backward_weight, one.action.stage, one.action.micro_batch});
  }
  fill(static_cast<int>(waiting.size()));
  return actions;
}

Schedule v_schedule(const PipelineShape& shape, const Costs& costs,
                    BuildingBlock (*block)(int num_ranks, int rank)) {
  Schedule schedule = empty_schedule(shape, v_placement(shape.num_ranks));
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.actions[rank] =
        with_weight_gradients(repeated(block(shape.num_ranks, rank), shape, rank));
  }
  int in_flight = 0;
  for (const InFlight& rank : in_flight_of_ranks(schedule)) {
    in_flight = std::max(in_flight, rank.held);
  }
  return list_schedule(schedule, costs, in_flight, shape.buffers);
}

}  // namespace

Schedule zero_bubble_v(const PipelineShape& shape, const Costs& costs) {
  return v_schedule(shape, costs, zb_v_block);
}

Schedule v_half(const PipelineShape& shape, const Costs& costs) {
  return v_schedule(shape, costs, v_half_block);
}

Schedule v_min(const PipelineShape& shape, const Costs& costs) {
  return v_schedule(shape, costs, v_min_block);
}

}  // namespace colossal::parallel::pipeline
