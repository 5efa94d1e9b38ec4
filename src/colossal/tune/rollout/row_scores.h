// Computes what a model gives to many texts or images, without gradients: scores, or the vectors of
// a model of two towers. Used by `colossal classify`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/models/model.h"
#include "colossal/models/text_tower.h"
#include "colossal/models/transformer_config.h"
#include "colossal/tune/samples/samples.h"

namespace colossal::tune {

struct RowScoring {
  int64_t batch = 16;            // rows per forward pass of each replica
  at::Device device = at::kCPU;  // of the model's weights
  // The ranks that hold the model: one or several replicas. Null: this rank alone. All ranks call
  // scores_of_rows() or scores_of_texts() with the same arguments.
  const ParallelContext* ranks = nullptr;
  // Called after each pass with the number of rows done; may be empty.
  std::function<void(int64_t done)> progress = {};
};

// Returns the scores of `count` rows, at least one, [count, scores] fp64 on the host, on all ranks.
// make_batch: returns the batch of these rows, which are numbers from 0; at least one.
// Law with several ranks: the bytes of the layers; for each pass, send_activation() (stages.h) at
// each border between stages on different ranks, and an all-reduce of the scores of its rows, in
// fp64, over all ranks.
using MakeBatch = std::function<data::Batch(std::span<const int64_t> rows)>;
at::Tensor scores_of_rows(models::Model& model, const models::TransformerConfig& config,
                          int64_t count, const MakeBatch& make_batch, const RowScoring& options);

// The same for what a model of two towers gives images or texts.
struct RowVectors {
  at::Tensor vectors;                      // [count, TextTower::features], of unit length
  double logit_scale = 0, logit_bias = 0;  // the model's (text_tower.h); 0: it has no bias
};
// make_batch: returns batches of images alone, or of texts alone.
RowVectors vectors_of_rows(models::Model& model, const models::TextTower& tower, int64_t count,
                           const MakeBatch& make_batch, const RowScoring& options);

// scores_of_rows() for texts, of which those of similar length are computed together. texts: rows
// of SampleKind::labeled, at least one. padding: token that pads shorter texts.
at::Tensor scores_of_texts(models::Model& model, const models::TransformerConfig& config,
                           const std::vector<Row>& texts, int32_t padding,
                           const RowScoring& options);

}  // namespace colossal::tune
