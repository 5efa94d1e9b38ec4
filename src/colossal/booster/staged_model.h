// A model as the engine runs it: by stages of a pipeline, or all at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "colossal/booster/router_loss.h"
#include "colossal/data/batch.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/language_model.h"
#include "colossal/nn/step_context.h"

namespace colossal {

// Loss of a micro-batch: the sum over the labels that count, and how many these are. The gradient
// is that of the mean over the global batch, whatever the micro-batches and ranks.
struct LossSum {
  at::Tensor sum;  // a scalar with a graph
  int64_t count = 0;
  // How many ranks of a replica have this same loss, where it is made of whole sequences that
  // several ranks share. The ranks of a tensor-parallel group do not count.
  int copies = 1;
  // A metric of a step: its mean over all micro-batches and ranks is told by its name.
  struct Metric {
    at::Tensor sum;    // a scalar
    double count = 0;  // of what was summed
  };
  std::map<std::string, Metric> metrics = {};
  // Of losses that balance experts, this rank's term: its gradient counts as that of `sum` does,
  // its value is told apart. Undefined: none.
  at::Tensor router_term = {};
};
using LossFunction = std::function<LossSum(const data::Batch&, const nn::StepContext&)>;

// What a stage passes on to the next: any number of tensors of any shapes. Gradients flow back
// through tensors of floating types.
using StageState = std::vector<at::Tensor>;

struct StageResult {
  StageState state;  // for the next stage
  LossSum loss;      // of the last stage, which has no next
};

struct StagedModel {
  // Stage `stage` on a micro-batch. `state` is empty at the first stage. Every stage is given the
  // batch whole, but for the positions of other ranks of sp.
  std::function<StageResult(int stage, const StageState& state, const data::Batch& batch,
                            const nn::StepContext& context)>
      run;
  // Returns, on meta, what `stage` would pass on for a batch of these sizes, so that the next rank
  // knows what to receive. Needed if there are several stages.
  std::function<StageState(int stage, const data::Batch& batch)> state_like;
};

// All of it in one stage.
StagedModel one_stage(LossFunction loss);

// The loss of a language model from the residual stream after its last block.
using HeadLoss = std::function<LossSum(models::LanguageModel& model, const at::Tensor& x,
                                       const data::Batch& batch, const nn::StepContext& context)>;
// The mean cross-entropy of the labels that are not ignored. The second form is for batches that
// ignore none, and need not look.
LossSum cross_entropy(models::LanguageModel& model, const at::Tensor& x, const data::Batch& batch,
                      const nn::StepContext& context);
LossSum cross_entropy_of_all(models::LanguageModel& model, const at::Tensor& x,
                             const data::Batch& batch, const nn::StepContext& context);

// A language model in the stages of `strategy`: blocks as it cuts them, the embedding before the
// first, the head and the loss after the last. The model must outlive it. Without state_like: see
// state_shapes.h. router_loss: null where there is none; else what routers recorded is passed on
// beside the residual stream.
StagedModel stages_of(models::LanguageModel& model, const Strategy& strategy,
                      HeadLoss loss = cross_entropy_of_all, RouterLoss router_loss = nullptr);

}  // namespace colossal
