// Brings weights that are sharded or rest off the device to it for their uses, whole, and lets them
// go, as a fetch plan says.
//
// All ranks of a job fetch the same chunks in the same order, whatever each of them uses: a rank
// that leaves uses out takes part in the gathers of the others.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "colossal/memory/chunk.h"
#include "colossal/memory/fetch_plan.h"

namespace colossal::memory {

class ChunkFetcher {
 public:
  // `chunks`: all of a job; those whose weights go away are fetched, by their index in it. `order`:
  // of a micro-batch, equal on all ranks of `world`; unknown: the first micro-batch has everything
  // whole, and finds it. tensor_parts: as plan_chunks() takes it.
  ChunkFetcher(std::vector<Chunk*> chunks, const comm::Group& world, int tensor_parts,
               int64_t window_bytes, const std::optional<OrderOfUse>& order);

  // A micro-batch is begin_training, its forward pass, begin_backward, its backward pass, end; an
  // evaluation is begin_evaluation, a forward pass, end; inference is begin_inference and forward
  // passes without end, of an order that is known. Uses outside of these need a chunk that is whole
  // anyway.
  void begin_training();
  void begin_backward();
  void begin_evaluation();
  void begin_inference();
  void end();

  // The weights are whole from one to the other.
  void before_use(int chunk);
  void after_use(int chunk) { chunks_[chunk]->end_use(); }
  // ... and here until autograd's node that is running has ended.
  void use_in_node(int chunk);

  // Whether there is anything to fetch.
  bool any_go_away() const { return any_go_away_; }
  // Most that is whole at once for its uses, of what inference fetches.
  int64_t inference_peak_bytes() const;
  // Of the micro-batch or the evaluation that ran last.
  const OrderOfUse& recorded() const { return recorded_; }

 private:
  void begin(const FetchPlan& plan);
  void advance_to(int chunk);
  void enter_next_step();
  void load_ahead(size_t step, size_t fetch);
  void end_node_uses();
  void agree();
  void plan(const OrderOfUse& order);
  std::vector<int> chunks_that_go_away() const;
  std::vector<int64_t> chunk_bytes() const;

  std::vector<Chunk*> chunks_;
  const comm::Group& world_;
  int tensor_parts_;
  int64_t window_bytes_;
  bool any_go_away_ = false, any_on_nvme_ = false;
  bool order_known_ = false, order_asked_ = false;
  FetchPlan training_, evaluation_, inference_;
  size_t forward_steps_ = 0;  // of training_, what lets go after the last use included

  const FetchPlan* running_ = nullptr;  // null: outside of a micro-batch
  size_t entered_ = 0;                  // steps of it
  bool training_runs_ = false, in_backward_ = false;
  OrderOfUse recorded_;
  const void* node_ = nullptr;  // of autograd, that uses these
  std::vector<int> node_uses_;
};

}  // namespace colossal::memory
