// The forward passes of an engine's steps on one of the ranks that hold a model: its stages of the
// pipeline, its parts of tensors, and the keys and values of its layers and heads.
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

// What surrounds the work of a stage of this rank, such as to bring weights that lie elsewhere: it
// calls `run`.
using AroundStage = std::function<void(int stage, const std::function<void()>& run)>;

struct PassResults {
  at::Tensor logits{};  // [wanted, vocabulary], on the host
  at::Tensor states{};  // [wanted, hidden] fp64, on the host; undefined: none are wanted
};

class ForwardPass {
 public:
  // ranks: of which this is one, with the model's strategy; null: this rank has all of the model,
  // and computes on `device`.
  ForwardPass(models::LanguageModel& model, const nn::PagedKeyValueOptions& pages,
              at::Device device, const ParallelContext* ranks,
              const AroundStage& around_stage = {});

  // How many passes may be started before the first is collected: each stage then has one to work
  // on. With several stages a rank it is one, as a stage would wait for a later one of this rank.
  int64_t most_under_way() const;
  // Runs this rank's stages of a pass. Collective over the ranks, none of which waits for those
  // behind it. An empty plan: around_stage() has nothing to run, but where ranks share out experts:
  // then the pass has no tokens, and those here work on other ranks' rows. All that share them out
  // run their passes together. Law: what the layers say; at each border of the pipeline 32 bytes
  // and the activation; and as much with the logits, and with the states, from the last stage to
  // the first rank, where these are two ranks.
  void start(const StepPlan& plan, const std::vector<nn::AdaptedRows>& adapted = {});
  // At the first rank: waits for the results of the oldest pass that was started, of a plan that
  // was not empty, and has not been collected.
  PassResults collect();

 private:
  nn::StepContext begin(const StepPlan& plan, const std::vector<nn::AdaptedRows>& adapted);
  bool shares_experts() const { return strategy_.expert_ranks() > 1; }
  void run_stages(const StepPlan& plan, const std::vector<nn::AdaptedRows>& adapted);
  // From what the stage before gives, or nothing, to what the next one takes; the last one gives
  // results_.
  at::Tensor run_stage(int stage, const at::Tensor& x, const StepPlan& plan,
                       const nn::StepContext& context);
  // Whether the last stage is on another rank than the first one.
  bool results_travel() const;
  void send_results();

  models::LanguageModel& model_;
  at::Device device_;
  const ParallelContext* ranks_;
  AroundStage around_stage_;
  Strategy strategy_;
  nn::PagedKeyValueStore store_;
  Stages stages_;
  PassResults results_;  // of the pass under way, at the ranks of the last stage
  struct Started {
    PassResults results;  // undefined: they come from the last stage
    bool has_states = false;
  };
  std::deque<Started> started_;  // at the first rank
};

// Reads this rank's part of an adapter of the model, as InferenceModel::load_adapter().
using LoadAdapter =
    std::function<std::shared_ptr<const nn::AdapterWeights>(const std::filesystem::path& folder)>;

// At the ranks other than the first: works on its plans until its engine ends. load_adapter: empty
// where no request has an adapter. Throws CommError where a rank is lost.
void follow(models::LanguageModel& model, const models::ModelFacts& facts,
            const ParallelContext& ranks, const AroundStage& around_stage = {},
            const LoadAdapter& load_adapter = {});

// At each rank, once it has loaded an adapter or could not: returns how many could not. Law: an
// all-reduce of 8 bytes over all ranks.
int64_t count_failures(bool failed, const ParallelContext& ranks);

}  // namespace colossal::serve
