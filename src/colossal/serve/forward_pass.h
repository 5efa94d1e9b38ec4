// The forward passes of the engine's steps, on one of the ranks that hold a model. A rank has its
// pipeline stages, its shards of their weights, and its part of their keys and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>

#include "colossal/mesh/parallel_context.h"
#include "colossal/models/language_model.h"
#include "colossal/nn/adapter_weights.h"
#include "colossal/nn/paged_key_value_store.h"
#include "colossal/serve/stages.h"
#include "colossal/serve/step_plan.h"

namespace colossal::serve {

// Wraps the computation of a stage on this rank, e.g. to fetch offloaded weights. Must call `run`,
// which computes the stage.
using AroundStage = std::function<void(int stage, const std::function<void()>& run)>;

struct PassResults {
  at::Tensor logits{};  // [wanted rows, vocabulary], on the host
  at::Tensor states{};  // [wanted rows, hidden] fp64, on the host; undefined if none are wanted
};

class ForwardPass {
 public:
  // ranks: the ranks that hold the model, this rank included; null: this rank holds the whole
  // model. device: of the model's weights.
  ForwardPass(models::LanguageModel& model, const nn::PagedKeyValueOptions& pages,
              at::Device device, const ParallelContext* ranks,
              const AroundStage& around_stage = {});

  // Returns how many passes may be started before the first is collected: one per pipeline stage,
  // so that every stage has work; 1 if a rank holds several stages (interleaved), where a pass
  // would wait for a later stage of its own rank.
  int64_t max_passes_in_flight() const;
  // Runs this rank's stages of a pass. Collective over the ranks. Returns without waiting for later
  // stages to compute this pass.
  //
  // For an empty plan, only calls around_stage() with a `run` that does nothing. With expert
  // parallelism, however, the pass then runs without tokens, because the experts on this rank
  // compute rows of other ranks: ranks that share experts must start equally many passes.
  //
  // Law: the bytes of the layers; at each border between ranks 32 bytes and the activation; if the
  // last stage is not on the first rank, 32 bytes and the logits, and 32 bytes and the states if
  // wanted.
  void start(const StepPlan& plan, const std::vector<nn::AdaptedRows>& adapted = {});
  // Call on the first rank only: waits for the results of the oldest pass that was started with a
  // non-empty plan and not collected yet, and returns them.
  PassResults collect();

 private:
  nn::StepContext begin(const StepPlan& plan, const std::vector<nn::AdaptedRows>& adapted);
  bool shares_experts() const { return strategy_.expert_ranks() > 1; }
  void run_stages(const StepPlan& plan, const std::vector<nn::AdaptedRows>& adapted);
  // Computes one stage. x: output of the previous stage; undefined at the first stage. Returns the
  // input of the next stage; the last stage sets results_ and returns an undefined tensor.
  at::Tensor run_stage(int stage, const at::Tensor& x, const StepPlan& plan,
                       const nn::StepContext& context);
  // Whether the last stage is on a rank other than the first rank.
  bool results_travel() const;
  void send_results();  // to the first rank

  models::LanguageModel& model_;
  at::Device device_;
  const ParallelContext* ranks_;
  AroundStage around_stage_;
  Strategy strategy_;
  nn::PagedKeyValueStore store_;
  Stages stages_;
  PassResults results_;  // of the pass being run; set on the ranks of the last stage
  struct Started {
    PassResults results;  // undefined if the last stage is on another rank
    bool has_states = false;
  };
  std::deque<Started> started_;  // on the first rank only: passes not collected yet
};

// Loads this rank's part of an adapter for the model; see InferenceModel::load_adapter().
using LoadAdapter =
    std::function<std::shared_ptr<const nn::AdapterWeights>(const std::filesystem::path& folder)>;

// Call on all ranks but the first: executes the first rank's plans until the first rank's engine
// ends. load_adapter: may be empty if no request has an adapter. Throws CommError if a rank is
// lost.
void follow(models::LanguageModel& model, const models::ModelFacts& facts,
            const ParallelContext& ranks, const AroundStage& around_stage = {},
            const LoadAdapter& load_adapter = {});

// Collective over all ranks: returns on how many ranks `failed` is true. Used after each rank has
// tried to load an adapter, and as a barrier before heartbeats start. Law: an all-reduce of 8 bytes
// over all ranks.
int64_t count_failures(bool failed, const ParallelContext& ranks);

}  // namespace colossal::serve
