// Brings weights that are sharded or rest off the device to it for their uses, whole, and lets them
// go, as a fetch plan says.
//
// All ranks of a job fetch the same chunks in the same order, whatever each of them uses: a rank
// that leaves uses out takes part in the gathers of the others.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "colossal/memory/chunk.h"
#include "colossal/memory/fetch_plan.h"

namespace colossal::memory {

class ChunkFetcher {
 public:
  // `chunks`: all of a rank; the transient ones are fetched, and named by their index. `ranks`:
  // those that hold the same stages of the pipeline. `order`: of a micro-batch, by stage, equal on
  // all of `ranks`. If it is unknown, the first micro-batch has all weights whole, and records it.
  // tensor_parts: as plan_chunks() takes it.
  ChunkFetcher(std::vector<Chunk*> chunks, const comm::Group& ranks, int tensor_parts,
               int64_t window_bytes, const OrderOfStages& order);

  // Passes of a stage over a micro-batch, one after the other: begin_forward, the pass, end;
  // begin_backward, the pass, end. Where a micro-batch's backward pass comes right after its
  // forward pass, weights stay here or are fetched across the border: begin_training, the forward
  // pass, begin_backward, the backward pass, end. An evaluation is begin_evaluation, a forward
  // pass, end; inference is begin_inference and forward passes without end, of an order that is
  // known. Uses outside of these need a chunk that is whole anyway.
  void begin_training(int stage);
  void begin_forward(int stage);
  void begin_backward(int stage);
  void begin_evaluation(int stage);
  void begin_inference();
  void end();

  // The chunk's weights are whole from before_use() to after_use().
  void before_use(int chunk);
  // The same of one slot, a stack of experts of which those with counts[expert] > 0 are needed.
  // Evaluation and inference bring no others to the device, if the chunk has nothing but stacks and
  // is not sharded; training brings all, as most have rows in a micro-batch.
  void before_use_of(int chunk, size_t slot, const std::vector<int64_t>& counts);
  void after_use(int chunk) { chunks_[chunk]->end_use(); }
  // The same until the running autograd node has ended.
  void use_in_node(int chunk);

  // Whether there is anything to fetch.
  bool any_transient() const { return any_transient_; }
  // The most bytes that inference has fetched at once.
  int64_t inference_peak_bytes() const;
  // The order of use in the last passes, by stage.
  const OrderOfStages& recorded() const { return recorded_; }

 private:
  // What is fetched during the passes of a stage.
  struct StagePlans {
    bool order_known = false, order_asked = false;
    FetchPlan training, forward, backward;
    size_t forward_steps = 0;  // of training, what lets go after the last use included
  };
  enum class Pass { training, forward, backward, evaluation, inference };

  void begin(int stage, Pass pass, const FetchPlan& plan);
  void prepare_use(int chunk);
  void advance_to(int chunk);
  bool brings_experts_when_used(const Chunk& chunk) const;
  void enter_next_step();
  void load_ahead(size_t step, size_t fetch);
  void end_node_uses();
  StagePlans& plans_of(int stage);
  void agree(int stage);
  void plan(int stage, const OrderOfUse& order);
  std::vector<int> transient_chunks() const;
  std::vector<int64_t> chunk_bytes() const;

  std::vector<Chunk*> chunks_;
  const comm::Group& ranks_;
  int tensor_parts_;
  int64_t window_bytes_;
  bool any_transient_ = false, any_on_nvme_ = false;
  std::map<int, StagePlans> stages_;
  FetchPlan inference_;

  const FetchPlan* running_ = nullptr;  // null: outside of a pass
  int stage_ = 0;                       // that runs
  Pass pass_ = Pass::training;
  size_t entered_ = 0;  // steps of running_
  bool in_backward_ = false;
  OrderOfStages recorded_;
  const void* node_ = nullptr;  // of autograd, that uses these
  std::vector<int> node_uses_;
};

}  // namespace colossal::memory
