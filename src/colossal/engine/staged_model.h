// StagedModel: a model in the form that Engine runs, as the stages of a pipeline or as a single
// stage; and the types of its losses. A task defines its loss as a HeadLoss, and stages_of() cuts a
// language model with this loss into stages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/engine/router_loss.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/model.h"
#include "colossal/nn/sequence_part.h"
#include "colossal/nn/step_context.h"
#include "colossal/ops/pending_sum.h"

namespace colossal {

// The loss of a micro-batch on this rank: the sum over the labels that are not ignored, and the
// number of these labels. Engine computes the gradient of the mean: the sum of all these sums in a
// step, divided by the sum of all counts. The mean does not depend on how the global batch is
// divided among micro-batches and ranks.
struct LossSum {
  // Scalar, in training with an autograd graph. Undefined only in evaluations: if the micro-batch
  // has no sequences, or if the loss function stores its results elsewhere (FrozenModel's `head`).
  at::Tensor sum;
  ops::PendingSum count;  // number of labels that are not ignored
  // Number of ranks of sp that compute this loss from the same sequences; 1 if each rank computes
  // the loss of its own positions. Engine divides LossSum::sum and LossSum::count by this number,
  // but not the metrics, whose means do not depend on it. The ranks of tp, which always compute the
  // same loss, are not counted.
  int copies = 1;
  // A metric of the micro-batch. A step reports the mean: the sum of all `sum`, divided by the sum
  // of all `count`. If is_maximum() (control.h) is true for the metric's name, a step reports the
  // largest `sum`.
  struct Metric {
    at::Tensor sum;         // scalar: sum of the metric's values, or their maximum
    ops::PendingSum count;  // number of values; 0: there are none
  };
  std::map<std::string, Metric> metrics = {};  // by name; the names are in EngineConfig::metrics
  // This rank's term of the router losses (router_loss.h), without an autograd graph. stages_of()
  // sets it, and adds the gradient of the term to that of `sum`. It does not add the value to
  // `sum`, because a step reports the value separately, as the metric "auxiliary_loss". Undefined
  // in evaluations, and if there are no router losses.
  at::Tensor router_term = {};
};
// A function that runs a whole model on a micro-batch and returns the loss. The batch is the result
// of local_batch() (data/batch.h).
using LossFunction = std::function<LossSum(const data::Batch&, const nn::StepContext&)>;

// What a stage passes on to the next stage: any number of tensors of any shapes. Gradients flow
// back through those of floating-point dtype.
using StageState = std::vector<at::Tensor>;

struct StageResult {
  StageState state;  // for the next stage
  LossSum loss;      // set by the last stage only
};

struct StagedModel {
  // Runs stage `stage` on a micro-batch. state: the StageState of the stage before; empty for the
  // first stage. batch: result of local_batch(), for every stage.
  std::function<StageResult(int stage, const StageState& state, const data::Batch& batch,
                            const nn::StepContext& context)>
      run;
  // Returns the StepContext of a forward pass over a micro-batch, which all its stages get. batch:
  // the whole micro-batch, before local_batch(). base: with the seed, the step, the sample ids and
  // whether it is training. Null: it is `base`.
  std::function<nn::StepContext(const data::Batch& batch, const nn::StepContext& base,
                                const nn::SequencePart& part)>
      context = nullptr;
  // Returns tensors with the dtypes and shapes of the StageState that `stage` returns, so that the
  // rank of the next stage knows what to receive. They should be on device meta. batch: the whole
  // micro-batch, before local_batch(). Required if there are several stages.
  std::function<StageState(int stage, const data::Batch& batch)> state_like = nullptr;
};

// Makes a model of a single stage, which `loss` runs.
StagedModel one_stage(LossFunction loss);
// Returns `model` with the dropout of training, also where it is only evaluated.
StagedModel as_in_training(StagedModel model);

// A function that computes the loss of a language model from the state after its last block. batch:
// result of local_batch().
using HeadLoss = std::function<LossSum(models::Model& model, const nn::BlockState& state,
                                       const data::Batch& batch, const nn::StepContext& context)>;
// HeadLoss functions that return the cross-entropy of next-token prediction over the field
// data::kLabels.
// cross_entropy() leaves out ignored labels. cross_entropy_of_all() is for batches without ignored
// labels, and saves the time to count them.
LossSum cross_entropy(models::Model& model, const nn::BlockState& state, const data::Batch& batch,
                      const nn::StepContext& context);
LossSum cross_entropy_of_all(models::Model& model, const nn::BlockState& state,
                             const data::Batch& batch, const nn::StepContext& context);

// Cuts a language model into the stages of `strategy`. The first stage also has the embedding, the
// last stage the head and the loss. Stages pass on the nn::BlockState.
// router_loss: computes the router losses (router_loss.h); null: there are none. If there are
// router losses, stages also pass on the records of their routers, since the last stage computes
// these losses for all layers. `model` must outlive the result. The result has no state_like: call
// pipelined() in state_shapes.h instead if there may be several stages.
StagedModel stages_of(models::Model& model, const Strategy& strategy,
                      HeadLoss loss = cross_entropy_of_all, RouterLoss router_loss = nullptr);

}  // namespace colossal
