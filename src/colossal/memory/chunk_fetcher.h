// Fetches the whole weights of sharded or offloaded (transient) chunks to the device before they
// are used, and releases them afterwards, by a fetch plan (fetch_plan.h).
//
// Ranks that hold the same pipeline stages fetch the same chunks in the same order, whichever
// weights each rank uses: a rank that does not use some weights still takes part in all-gathering
// them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "colossal/memory/chunk.h"
#include "colossal/memory/fetch_plan.h"

namespace colossal::memory {

class ChunkFetcher {
 public:
  // chunks: all chunks of a rank, identified by index; only the transient ones are fetched. ranks:
  // the ranks that hold the same pipeline stages. order: the order of use in a micro-batch, by
  // stage, the same on all of `ranks`. If it lacks a stage, that stage's first micro-batch fetches
  // all chunks at once and records the order, on which `ranks` then agree. If their orders
  // contradict each other, every micro-batch fetches all chunks at once. tensor_parts: number of
  // ranks over which tensors are divided; for the window, a chunk counts as its global size divided
  // by tensor_parts. window_bytes: see ChunkOptions.
  ChunkFetcher(std::vector<Chunk*> chunks, const comm::Group& ranks, int tensor_parts,
               int64_t window_bytes, const OrderOfStages& order);

  // Bracket the passes of a stage over a micro-batch; passes must not overlap: begin_forward, the
  // pass, end; begin_backward, the pass, end. If a micro-batch's backward pass directly follows its
  // forward pass: begin_training, the forward pass, begin_backward, the backward pass, end; the
  // backward pass's first weights are then kept or fetched before the forward pass ends. An
  // evaluation is begin_evaluation, a forward pass, end. Inference is begin_inference, then any
  // number of forward passes of stage 0; its order of use must be known. Outside these passes, only
  // chunks that are not transient may be used.
  void begin_training(int stage);
  void begin_forward(int stage);
  void begin_backward(int stage);
  void begin_evaluation(int stage);
  void begin_inference();
  void end();

  // The chunk's weights are whole from before_use() to after_use().
  void before_use(int chunk);
  // As before_use(), for one slot that is a stack of experts. counts[e]: number of rows routed to
  // expert e. Only experts with rows are needed. Evaluation and inference fetch only these if
  // Chunk::can_fetch_experts(); training fetches all experts, because most have rows in a
  // micro-batch.
  void before_use_of(int chunk, size_t slot, const std::vector<int64_t>& counts);
  void after_use(int chunk) { chunks_[chunk]->end_use(); }
  // As before_use(); the use lasts at least until the running autograd node has ended. No
  // after_use().
  void use_in_node(int chunk);

  // Whether any chunk is transient.
  bool any_transient() const { return any_transient_; }
  // Most bytes of fetched weights on the device at once during inference.
  int64_t inference_peak_bytes() const;
  // By stage, the order in which its last passes used transient chunks.
  const OrderOfStages& recorded() const { return recorded_; }

 private:
  // The fetches during the passes of a stage.
  struct StagePlans {
    // order_known: these plans follow an order of use; else they fetch all chunks at once.
    // order_asked: the order was given, or ranks have compared the orders that they recorded, which
    // they do only once, even if the orders contradict each other.
    bool order_known = false, order_asked = false;
    FetchPlan training, forward, backward;
    size_t forward_steps = 0;  // number of steps of `training` up to and including kNoUse
  };
  enum class Pass { training, forward, backward, evaluation, inference };

  void begin(int stage, Pass pass, const FetchPlan& plan);
  void prepare_use(int chunk);
  void advance_to(int chunk);
  bool brings_experts_when_used(const Chunk& chunk) const;
  void enter_next_step();
  // Begins to read chunks from NVMe, from entry `fetch` of FetchStep::fetch in step `step` on.
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

  const FetchPlan* running_ = nullptr;  // null outside a pass
  int stage_ = 0;                       // of the running pass
  Pass pass_ = Pass::training;
  size_t entered_ = 0;  // number of steps of running_ carried out so far
  bool in_backward_ = false;
  OrderOfStages recorded_;
  const void* node_ = nullptr;  // autograd node that uses the chunks in node_uses_
  std::vector<int> node_uses_;
};

}  // namespace colossal::memory
