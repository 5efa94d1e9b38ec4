#include <algorithm>
#include <utility>

#include "colossal/parallel/pipeline/schedule_functions.h"

namespace colossal::parallel::pipeline {
namespace {

// Builds the order of one rank's computations. down, up: the rank's two stages, on the way down the
// ranks and on the way up.
class RankOrder {
 public:
  RankOrder(int down, int up) : down_{down}, up_{up} {}

  void forward_down() { forward(down_); }
  void forward_up() { forward(up_); }
  void backward_down() { backward(down_); }
  void backward_up() { backward(up_); }
  void input_gradient_down() { input_gradient(down_); }
  void input_gradient_up() { input_gradient(up_); }
  void weight_gradient() { actions_.push_back(waiting_[next_waiting_++]); }

  // Lets the last computation so far overlap the next one.
  void together_with_next() { actions_.back().overlaps_next = true; }

  std::vector<Action> take() { return std::move(actions_); }

 private:
  struct Chunk {
    int stage;
    int forwards = 0;
    int backwards = 0;
  };

  void forward(Chunk& chunk) {
    actions_.push_back({ActionKind::forward, chunk.stage, chunk.forwards++});
  }
  void backward(Chunk& chunk) {
    actions_.push_back({ActionKind::backward, chunk.stage, chunk.backwards++});
  }
  void input_gradient(Chunk& chunk) {
    waiting_.push_back({ActionKind::backward_weight, chunk.stage, chunk.backwards});
    actions_.push_back({ActionKind::backward_input, chunk.stage, chunk.backwards++});
  }

  Chunk down_, up_;
  std::vector<Action> actions_;
  std::vector<Action> waiting_;  // weight gradients whose input gradients come before
  size_t next_waiting_ = 0;
};

// num_micro_batches must be at least 2 num_ranks. `behind`: number of ranks after this one on the
// way down.
std::vector<Action> rank_order(int num_ranks, int rank, int num_micro_batches) {
  const int behind = num_ranks - 1 - rank;
  RankOrder order(rank, 2 * num_ranks - 1 - rank);
  for (int i = 0; i < 2 * behind; ++i) order.forward_down();
  for (int i = 0; i <= rank; ++i) {
    order.forward_down();
    order.forward_up();
  }
  for (int i = 0; i < behind; ++i) {
    order.input_gradient_up();
    order.weight_gradient();
    order.forward_up();
  }
  for (int i = 0; i < num_micro_batches - 2 * num_ranks + rank + 1; ++i) {
    order.forward_down();
    // The first backward of the last rank does not overlap: the other ranks wait for its gradient.
    if (i > 0 || behind > 0) order.together_with_next();
    order.backward_up();
    order.forward_up();
    order.together_with_next();
    order.backward_down();
  }
  for (int i = 0; i < behind; ++i) {
    order.backward_up();
    order.forward_up();
    order.together_with_next();
    order.backward_down();
  }
  // The second half of these backward passes is split, because other ranks wait for their input
  // gradients.
  for (int i = 0; i < 2 * (rank + 1); ++i) {
    const bool split = i >= rank + 1;
    if (i % 2 == 0) split ? order.input_gradient_up() : order.backward_up();
    if (i % 2 == 1) split ? order.input_gradient_down() : order.backward_down();
  }
  for (int i = 0; i < behind; ++i) {
    order.weight_gradient();
    order.input_gradient_down();
  }
  for (int i = 0; i <= rank; ++i) order.weight_gradient();
  return order.take();
}

}  // namespace

Schedule dual_pipe_v(const PipelineShape& shape, const Costs&) {
  const int enough = std::max(shape.num_micro_batches, 2 * shape.num_ranks);
  Schedule schedule = empty_schedule(shape, v_placement(shape.num_ranks));
  for (int rank = 0; rank < shape.num_ranks; ++rank) {
    schedule.actions[rank] = rank_order(shape.num_ranks, rank, enough);
  }
  return first_micro_batches(std::move(schedule), shape.num_micro_batches);
}

}  // namespace colossal::parallel::pipeline
