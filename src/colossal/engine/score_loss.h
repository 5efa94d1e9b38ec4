// The loss of models that give each text or image scores (models/labels.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "colossal/data/batch.h"
#include "colossal/engine/staged_model.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/labels.h"
#include "colossal/models/model.h"

namespace colossal {

// Returns the scores of each row of a batch, [rows, scores], in fp32 (fp64 for an fp64 model),
// differentiable, equal on all ranks of sp. batch: this rank's part of the batch
// (data::local_batch()), with the field data::kPooling if it is of texts. state: after the last
// block. step: the context of the forward pass that computed it. Law with sp > 1: an all-reduce of
// the scores of all rows over sp, in the forward pass only.
at::Tensor scores_of_rows(models::Model& model, const nn::BlockState& state,
                          const data::Batch& batch, const nn::StepContext& step,
                          const ParallelContext& context);

// Returns the loss of each row, [rows].
//   scores   what the model gives, [rows, labels]
//   targets  data::kTargets: single_label [rows, 1], the class, or [rows, labels], the share of
//            each class; else [rows, labels]
//   single_label  -log softmax(scores)[target]; with shares of classes: their cross-entropy
//   multi_label   mean over labels of the binary cross-entropy of sigmoid(score) and the target
//   regression    mean over labels of (score - target)^2
// The means over rows are those of transformers' ...ForSequenceClassification.
at::Tensor label_loss(models::Problem problem, const at::Tensor& scores, const at::Tensor& targets);
// Returns, for each row, how right the model is, [rows] in fp64. single_label: 1 if the highest
// score is that of the target (of the class with the largest share), else 0; multi_label: the share
// of labels for which score > 0 agrees with the target; regression: the mean over labels of |score
// - target|.
at::Tensor label_accuracy(models::Problem problem, const at::Tensor& scores,
                          const at::Tensor& targets);

// Returns the name of the metric in which score_loss() returns label_accuracy().
const char* score_metric(models::Problem problem);
// Returns the loss of a micro-batch with data::kPooling and data::kTargets: label_loss() of
// scores_of_rows(). `context` must outlive the result.
HeadLoss score_loss(models::Problem problem, const ParallelContext& context);

}  // namespace colossal
