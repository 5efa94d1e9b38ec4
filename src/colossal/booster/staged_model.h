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
  // How many ranks of a replica have this same loss: more than 1 if it is that of whole sequences
  // which several ranks share. Ranks of a tensor-parallel group count as one.
  int copies = 1;
  // A metric of a step, which is reported as its mean over all micro-batches and ranks.
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
  // Runs stage `stage` on a micro-batch. `state` is empty at the first stage. Every stage gets the
  // whole batch, but for the positions of other ranks of sp.
  std::function<StageResult(int stage, const StageState& state, const data::Batch& batch,
                            const nn::StepContext& context)>
      run;
  // Returns, on meta, what `stage` would pass on for a batch of these sizes, so that the next rank
  // knows what to receive. Needed if there are several stages.
  std::function<StageState(int stage, const data::Batch& batch)> state_like;
};

// Makes a model that is one stage.
StagedModel one_stage(LossFunction loss);

// The loss of a language model from the residual stream after its last block.
using HeadLoss = std::function<LossSum(models::LanguageModel& model, const at::Tensor& x,
                                       const data::Batch& batch, const nn::StepContext& context)>;
// The cross-entropy of the labels that are not ignored. cross_entropy_of_all() is for batches that
// ignore none, and does not look for them.
LossSum cross_entropy(models::LanguageModel& model, const at::Tensor& x, const data::Batch& batch,
                      const nn::StepContext& context);
LossSum cross_entropy_of_all(models::LanguageModel& model, const at::Tensor& x,
                             const data::Batch& batch, const nn::StepContext& context);

// Cuts a language model into the stages of `strategy`: the first has the embedding too, the last
// the head and the loss. The model must outlive the result, which has no state_like: see
// state_shapes.h. router_loss: null where there is none; else what routers
// recorded is passed on beside the residual stream.
StagedModel stages_of(models::LanguageModel& model, const Strategy& strategy,
                      HeadLoss loss = cross_entropy_of_all, RouterLoss router_loss = nullptr);

}  // namespace colossal
