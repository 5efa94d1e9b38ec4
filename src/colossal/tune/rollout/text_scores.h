// Computes the scores that a model gives to many texts, without gradients. Used by `colossal
// classify`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/mesh/parallel_context.h"
#include "colossal/models/language_model.h"
#include "colossal/models/transformer_config.h"
#include "colossal/tune/samples/samples.h"

namespace colossal::tune {

struct TextScoring {
  int64_t batch = 16;            // texts per forward pass of each replica
  int32_t padding = 0;           // token that pads shorter texts
  at::Device device = at::kCPU;  // of the model's weights
  // The ranks that hold the model: one or several replicas. Null: this rank alone. All ranks call
  // scores_of_texts() with the same arguments.
  const ParallelContext* ranks = nullptr;
};

// Returns the scores of the texts, [texts, scores] fp64 on the host, on all ranks. texts: rows of
// SampleKind::labeled, at least one. Texts of similar length are computed together. progress:
// called after each pass with the number of texts done; may be empty. Law with several ranks: the
// bytes of the layers; for each pass, send_activation() (stages.h) at each border between stages on
// different ranks, and an all-reduce of the scores of its texts, in fp64, over all ranks.
at::Tensor scores_of_texts(models::LanguageModel& model, const models::TransformerConfig& config,
                           const std::vector<Row>& texts, const TextScoring& options,
                           const std::function<void(int64_t done)>& progress = {});

}  // namespace colossal::tune
