// ChunkFetcher: fetches the whole weights of transient chunks (sharded by ZeRO stage 3, or
// offloaded) to the device before they are used, and releases them afterwards, according to a fetch
// plan (fetch_plan.h). Only ChunkEngine uses this.
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
  // chunks: all chunks of a rank; other functions name a chunk by its index in this list. Only
  // transient chunks are fetched. ranks: the ranks that hold the same pipeline stages. `chunks` and
  // `ranks` must outlive this.
  // order: the order of use in a micro-batch, by stage, the same on all of `ranks`. A stage that
  // has no entry fetches all transient chunks at once in each pass, until its first backward pass
  // has ended. Then `ranks` compare the orders that they have recorded. If one order contains all
  // others, the stage follows it from then on; else it goes on fetching all chunks at once.
  // window_bytes: maximum bytes of fetched chunks on the device at once in a stage that follows an
  // order; but the chunk after the one in use is always fetched ahead (ChunkOptions::window_bytes).
  // A chunk counts with its global size divided by tensor_parts, the number of ranks of tp, so that
  // all ranks make the same plan.
  // any_order: whether a pass may use weights in another order than it did before. From the first
  // such use to its end, the pass fetches weights when they are used, which is logged once.
  ChunkFetcher(std::vector<Chunk*> chunks, const comm::Group& ranks, int tensor_parts,
               int64_t window_bytes, bool any_order, const OrderOfStages& order);

  // Call these around the passes of a stage over a micro-batch; passes must not overlap:
  //   begin_forward, forward pass, end; later begin_backward, backward pass, end;
  //   begin_training, forward pass, begin_backward, backward pass, end, if the backward pass
  //     directly follows: the first weights of the backward pass are then kept or fetched before
  //     the forward pass ends;
  //   begin_evaluation, forward pass, end;
  //   begin_gathering, uses in any order, end: all transient chunks are fetched at once;
  //   begin_on_demand, forward pass of a part of the model, end: chunks are fetched when they are
  //     used, whatever the order of use;
  //   begin_inference, any number of forward passes of stage 0, whose order of use must be known;
  //     no end and no other pass may follow.
  // Outside these passes, only chunks that are not transient may be used. If weights are sharded,
  // these functions, before_use(), before_use_of() and use_in_node() all-gather them: all of
  // `ranks` must run the same passes in the same order. The end() in which `ranks` compare their
  // orders is collective even if no weights are sharded.
  void begin_training(int stage);
  void begin_forward(int stage);
  void begin_backward(int stage);
  void begin_evaluation(int stage);
  void begin_gathering(int stage);
  void begin_on_demand(int stage);
  void begin_inference();
  void end();

  // Waits until the chunk's weights are whole on the device, and keeps them there until
  // after_use(). Throws InternalError if the chunk is transient and no pass runs, or if this use is
  // not in the order of use and `any_order` is false.
  void before_use(int chunk);
  // Like before_use(), for one parameter of the chunk that is a stack of experts. slot: index of
  // the parameter in the chunk. counts[e]: number of rows routed to expert e. Only experts with
  // rows are needed: evaluation and inference fetch only these if Chunk::can_fetch_experts() is
  // true. Training fetches all experts, because most experts have rows in a micro-batch.
  void before_use_of(int chunk, size_t slot, const std::vector<int64_t>& counts);
  void after_use(int chunk) { chunks_[chunk]->end_use(); }
  // Like before_use(), but without an after_use(): the weights stay whole at least until the
  // running autograd node has ended.
  void use_in_node(int chunk);

  bool in_pass() const { return running_ != nullptr; }
  // Returns whether any chunk is transient.
  bool any_transient() const { return any_transient_; }
  // Returns the largest number of bytes of fetched weights that are on the device at once during
  // inference, according to the plan; 0 if no order of use is known.
  int64_t inference_peak_bytes() const;
  // Returns the order in which each stage's last passes used transient chunks.
  const OrderOfStages& recorded() const { return recorded_; }

 private:
  // The fetches during the passes of a stage.
  struct StagePlans {
    // order_known: whether the plans follow an order of use; otherwise they fetch all chunks at
    // once. order_asked: whether the order was given, or ranks have compared the orders that they
    // recorded. Ranks compare only once, even if the orders contradict each other.
    bool order_known = false, order_asked = false;
    FetchPlan training, forward, backward;
    size_t forward_steps = 0;  // number of steps of `training` up to and including kEndOfForward
  };
  enum class Pass { training, forward, backward, evaluation, inference };

  void begin(int stage, Pass pass, const FetchPlan& plan);
  // Carries out the plan up to the use of a chunk, and waits for its weights.
  void prepare_use(int chunk);
  void advance_to(int chunk);  // carries out the plan up to the next use of a chunk
  void leave_plan();           // the rest of the running pass fetches on demand
  void fetch_on_demand(int chunk);
  // Whether experts of the chunk are fetched when they are used, in the running pass.
  bool brings_experts_when_used(const Chunk& chunk) const;
  void enter_next_step();  // carries out the next step of the plan: releases and fetches chunks
  // Begins to read chunks from NVMe, from entry `fetch` of FetchStep::fetch in step `step` on.
  void load_ahead(size_t step, size_t fetch);
  void end_node_uses();
  StagePlans& plans_of(int stage);
  // Compares the recorded orders of all ranks_, and plans by their common order, if there is one.
  void agree(int stage);
  void plan(int stage, const OrderOfUse& order);  // makes the plans of a stage
  std::vector<int> transient_chunks() const;      // their indices
  std::vector<int64_t> chunk_bytes() const;       // size of each chunk, the same on all ranks

  std::vector<Chunk*> chunks_;
  const comm::Group& ranks_;
  int tensor_parts_;
  int64_t window_bytes_;
  bool any_order_;
  bool any_transient_ = false, any_on_nvme_ = false;
  std::map<int, StagePlans> stages_;  // by stage
  FetchPlan inference_, gathering_;
  const FetchPlan on_demand_;  // no steps

  const FetchPlan* running_ = nullptr;  // plan of the running pass; null outside a pass
  int stage_ = 0;                       // stage of the running pass
  Pass pass_ = Pass::training;          // kind of the running pass
  size_t entered_ = 0;                  // number of steps of *running_ carried out so far
  bool in_backward_ = false;
  bool has_left_plan_ = false;  // whether the running pass fetches on demand
  std::vector<int> recent_;     // if so, the chunks that are wanted; the last one was used last
  bool has_warned_ = false;     // that a pass has left its plan
  OrderOfStages recorded_;
  const void* node_ = nullptr;  // autograd node that uses the chunks in node_uses_
  std::vector<int> node_uses_;
};

}  // namespace colossal::memory
