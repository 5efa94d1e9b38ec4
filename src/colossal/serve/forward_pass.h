// The forward passes of the inference engine on one rank. If several ranks hold the model (pp x
// tp), each rank computes its pipeline stages with its shards of weights and its part of the KV
// cache. The first rank (leads() in step_messages.h) uses ForwardPass through EngineCore, which
// plans the passes; the other ranks call follow(). If dp or sp is above 1 (when a training job
// samples), there are dp * sp such grids of pp x tp ranks. Each grid has a first rank and passes of
// its own. Below, the first rank is that of this rank's grid.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "colossal/mesh/parallel_context.h"
#include "colossal/models/model.h"
#include "colossal/models/model_facts.h"
#include "colossal/nn/adapter_weights.h"
#include "colossal/nn/memory_store.h"
#include "colossal/nn/paged_key_value_store.h"
#include "colossal/serve/stages.h"
#include "colossal/serve/step_plan.h"

namespace colossal::serve {

// A function that wraps the computation of a pipeline stage on this rank, e.g. to fetch offloaded
// weights before it. The function must call `run`, which computes the stage. stage: number of the
// stage in the model, from 0.
using AroundStage = std::function<void(int stage, const std::function<void()>& run)>;

// Results of a pass, on the host. Rows are in the order of StepPlan::wanted_logits, choices and
// wanted_states.
struct PassResults {
  // Of the wanted logits that are in no choice: [rows, vocabulary]; undefined if there are none.
  at::Tensor logits{};
  at::Tensor tokens{};  // choose_tokens(); undefined if the plan has no choices
  // Final hidden states, [wanted states, hidden] fp64, or scores, [wanted states, scores], of a
  // model that has scores; undefined if the plan has no wanted_states.
  at::Tensor states{};
};

// Runs a rank's part of forward passes and stores the rank's keys and values.
class ForwardPass {
 public:
  // facts: of the model. pages: options of this rank's KV cache. device: of the model's weights.
  // ranks: the ranks of all grids, this rank included; null: this rank holds the whole model.
  // around_stage: called for each stage; empty: stages are computed directly. If the model is an
  // encoder, each chunk of a plan is a whole text, whose tokens attend to each other without the KV
  // cache.
  ForwardPass(models::Model& model, const models::ModelFacts& facts,
              const nn::PagedKeyValueOptions& pages, at::Device device,
              const ParallelContext* ranks, const AroundStage& around_stage = {});

  // Returns the maximum number of passes in flight, i.e. passes that are started with a non-empty
  // plan and not yet collected. This is the number of pipeline stages, so that every stage has
  // work. If a rank holds several stages (interleaved), it is 1: start() then returns only when
  // other ranks have computed the stages between those of this rank.
  int64_t max_passes_in_flight() const;
  // Copies plan.copied_pages, then runs this rank's stages of a pass. All ranks of a grid must call
  // start() with the same plan. Returns when this rank's last stage is computed, without waiting
  // for the stages after it. adapted: the same ranges as plan.adapted, with this rank's loaded
  // adapters in place of their numbers; start() itself does not read plan.adapted.
  //
  // A plan without tokens is empty. With expert parallelism, start() computes the stages for an
  // empty plan, too, because this rank's experts may have to compute tokens of other grids. The
  // ranks that together hold the experts of a layer must therefore start equally many passes.
  // Without expert parallelism, start() computes no stage for an empty plan, but still calls
  // around_stage() for each stage of this rank, with a `run` that does nothing.
  //
  // Law: the bytes of the layers; at each border between stages on different ranks, the activation
  // and 32 bytes, which describe its dtype and shape; if the last stage is not on the first rank,
  // the members of PassResults that are defined, states in their own dtype, with 32 bytes for each.
  void start(const StepPlan& plan, const std::vector<nn::AdaptedRows>& adapted = {});
  // Waits for the results of the oldest pass that was started with a non-empty plan and not yet
  // collected, and returns them. Call on the first rank only. Throws InternalError if there is no
  // such pass.
  PassResults collect();

 private:
  // Sets the tokens of the pass in store_ and returns the context of the pass.
  nn::StepContext begin(const StepPlan& plan, const std::vector<nn::AdaptedRows>& adapted);
  // Of an encoder-decoder: makes the encoder read the sources of a plan, and sets which source each
  // token of the pass attends to.
  void read_sources(const StepPlan& plan);
  bool shares_experts() const { return strategy_.expert_ranks() > 1; }
  void run_stages(const StepPlan& plan, const std::vector<nn::AdaptedRows>& adapted);
  // Computes one stage. x: output of the previous stage; undefined at the first stage. Returns the
  // input of the next stage; the last stage sets results_ and returns an undefined tensor.
  at::Tensor run_stage(int stage, const at::Tensor& x, const StepPlan& plan,
                       const nn::StepContext& context);
  // Chooses the tokens of plan.choices from results_.logits, which then has the other rows.
  void choose_tokens_of(const StepPlan& plan);
  // Whether this rank, if it holds the last stage, returns the results of its tensor-parallel
  // group.
  bool returns_results() const;
  // Whether the last stage is on a rank other than the first rank.
  bool must_send_results() const;
  void send_results();  // sends results_ to the first rank

  models::Model& model_;
  at::Device device_;
  const ParallelContext* ranks_;
  AroundStage around_stage_;
  Strategy strategy_;
  bool causal_, scores_;  // of ModelFacts; whether `scores` is above 0
  nn::PagedKeyValueStore store_;
  std::optional<nn::MemoryStore> memories_;  // of an encoder-decoder, else nullopt
  Stages stages_;
  PassResults results_;  // of the pass being run; set on the ranks of the last stage
  struct Started {
    PassResults results;  // undefined tensors if the last stage is on another rank
    // Which results the pass has.
    bool has_logits = true, has_tokens = false, has_states = false;
  };
  std::deque<Started> started_;  // on the first rank only: passes not collected yet
};

// A function that loads this rank's part of the adapter in `folder`; see
// InferenceModel::load_adapter().
using LoadAdapter =
    std::function<std::shared_ptr<const nn::AdapterWeights>(const std::filesystem::path& folder)>;

// Runs this rank's part of the passes that the first rank plans, until the engine on the first rank
// ends. All ranks of a grid call it, except the first, which has an Engine or EngineCore. ranks: as
// for ForwardPass. facts: of the model. load_adapter: may be empty if no request has an adapter.
// Throws CommError if a rank is lost.
void follow(models::Model& model, const models::ModelFacts& facts, const ParallelContext& ranks,
            const AroundStage& around_stage = {}, const LoadAdapter& load_adapter = {});

// Returns on how many ranks of the world `failed` is true. Used after all ranks have tried to load
// an adapter, and as a barrier before heartbeats start. Collective. Law: an all-reduce of 8 bytes
// over all ranks.
int64_t count_failures(bool failed, const ParallelContext& ranks);

}  // namespace colossal::serve
