// Forward passes of the engine's steps on one of the ranks that hold a model: this rank's pipeline
// stages, shards of weights, and keys and values.
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

// Wraps the computation of a stage on this rank, e.g. to fetch offloaded weights. Must call `run`.
using AroundStage = std::function<void(int stage, const std::function<void()>& run)>;

struct PassResults {
  at::Tensor logits{};  // [wanted rows, vocabulary], on the host
  at::Tensor states{};  // [wanted rows, hidden] fp64, on the host; undefined if none are wanted
};

class ForwardPass {
 public:
  // ranks: the ranks that hold the model, this rank included; null: this rank holds the whole model
  // and computes on `device`.
  ForwardPass(models::LanguageModel& model, const nn::PagedKeyValueOptions& pages,
              at::Device device, const ParallelContext* ranks,
              const AroundStage& around_stage = {});

  // Most passes that may be started before the first is collected: one per pipeline stage, so that
  // every stage is busy. 1 with interleaved stages (several per rank), where a pass would wait for
  // a later stage of the same rank.
  int64_t most_under_way() const;
  // Runs this rank's stages of a pass. Collective over the ranks; no rank waits for a later stage.
  //
  // An empty plan does nothing except calling around_stage() with an empty `run`. With expert
  // parallelism, however, the pass runs without tokens, and the experts on this rank compute rows
  // of other ranks: ranks that share experts run their passes in lockstep.
  //
  // Law: the bytes of the layers; at each pipeline border 32 bytes and the activation; if the last
  // stage is not on the first rank, 32 bytes and the logits, and 32 bytes and the states if wanted.
  void start(const StepPlan& plan, const std::vector<nn::AdaptedRows>& adapted = {});
  // Called on the first rank: waits for and returns the results of the oldest started, uncollected
  // pass of a non-empty plan.
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
  void send_results();

  models::LanguageModel& model_;
  at::Device device_;
  const ParallelContext* ranks_;
  AroundStage around_stage_;
  Strategy strategy_;
  nn::PagedKeyValueStore store_;
  Stages stages_;
  PassResults results_;  // of the current pass, on the ranks of the last stage
  struct Started {
    PassResults results;  // undefined if the last stage is on another rank
    bool has_states = false;
  };
  std::deque<Started> started_;  // on the first rank only: passes not collected yet
};

// Loads this rank's part of an adapter of the model; see InferenceModel::load_adapter().
using LoadAdapter =
    std::function<std::shared_ptr<const nn::AdapterWeights>(const std::filesystem::path& folder)>;

// Called on the ranks other than the first: executes the first rank's plans until the engine ends.
// load_adapter: empty if no request has an adapter. Throws CommError if a rank is lost.
void follow(models::LanguageModel& model, const models::ModelFacts& facts,
            const ParallelContext& ranks, const AroundStage& around_stage = {},
            const LoadAdapter& load_adapter = {});

// Called on each rank after it has loaded an adapter or failed to: returns the number of ranks that
// failed. Law: an all-reduce of 8 bytes over all ranks.
int64_t count_failures(bool failed, const ParallelContext& ranks);

}  // namespace colossal::serve
