// A model in the form that Engine runs: as the stages of a pipeline, or as a single stage.
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

// Loss of a micro-batch: the sum over the labels that are not ignored, and the number of these
// labels. Training uses the gradient of the mean over the global batch, however it is divided among
// micro-batches and ranks.
struct LossSum {
  at::Tensor sum;     // scalar with a graph
  int64_t count = 0;  // labels that are not ignored
  // Number of ranks of a replica that compute this same loss. More than 1 if several ranks of sp
  // compute the loss of the same whole sequences. The ranks of a tensor-parallel group count as
  // one.
  int copies = 1;
  // A metric of the micro-batch. A step reports the mean over all its values; if is_maximum(), the
  // maximum of `sum`.
  struct Metric {
    at::Tensor sum;    // a scalar
    double count = 0;  // number of values summed
  };
  std::map<std::string, Metric> metrics = {};  // by name
  // This rank's term of the losses that balance experts, as a value without a graph. Its gradient
  // is already part of `sum`; the value is reported separately. Undefined: none.
  at::Tensor router_term = {};
};
using LossFunction = std::function<LossSum(const data::Batch&, const nn::StepContext&)>;

// What a stage passes on to the next stage: any number of tensors of any shapes. Gradients flow
// back through those of floating-point dtype.
using StageState = std::vector<at::Tensor>;

struct StageResult {
  StageState state;  // for the next stage
  LossSum loss;      // set by the last stage only
};

struct StagedModel {
  // Runs stage `stage` on a micro-batch. `state` is what the stage before passed on; empty for the
  // first stage. batch: every stage gets all fields of the micro-batch, with this rank's positions
  // of sp (local_batch()).
  std::function<StageResult(int stage, const StageState& state, const data::Batch& batch,
                            const nn::StepContext& context)>
      run;
  // Returns tensors on meta with the dtypes and shapes that `stage` would pass on for this whole
  // batch, so that the next stage's rank knows what to receive. Required if there are several
  // stages.
  std::function<StageState(int stage, const data::Batch& batch)> state_like;
};

// Makes a model of a single stage.
StagedModel one_stage(LossFunction loss);

// Computes the loss of a language model from x, the residual stream after the last block: [batch,
// tokens, hidden]. batch: result of local_batch().
using HeadLoss = std::function<LossSum(models::LanguageModel& model, const at::Tensor& x,
                                       const data::Batch& batch, const nn::StepContext& context)>;
// The cross-entropy of the labels that are not ignored. cross_entropy_of_all() is for batches
// without ignored labels, and skips the search for them.
LossSum cross_entropy(models::LanguageModel& model, const at::Tensor& x, const data::Batch& batch,
                      const nn::StepContext& context);
LossSum cross_entropy_of_all(models::LanguageModel& model, const at::Tensor& x,
                             const data::Batch& batch, const nn::StepContext& context);

// Cuts a language model into the stages of `strategy`. The first stage also has the embedding, the
// last stage the head and the loss. `model` must outlive the result. The result has no state_like:
// pipelined() in state_shapes.h sets it. router_loss: null if there is none; otherwise stages pass
// on the records of routers together with the residual stream.
StagedModel stages_of(models::LanguageModel& model, const Strategy& strategy,
                      HeadLoss loss = cross_entropy_of_all, RouterLoss router_loss = nullptr);

}  // namespace colossal
