// Low-rank adapters of a vocabulary's table (E. Hu et al. 2021, "LoRA"), for embeddings and for
// vocabulary heads. Every rank holds A and B whole, since they are small beside the table, and
// computes the terms of its part of the table.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Embedding: found + scale * A^T[tokens] B^T.
class EmbeddingAdapter {
 public:
  // For an embedding without an adapter of the model: applies per-request adapters only, which are
  // looked up by `name`, the embedding's full name.
  explicit EmbeddingAdapter(std::string name) : name_(std::move(name)) {}
  // down: A [rank, vocabulary]; up: B [features, rank].
  EmbeddingAdapter(std::string name, ParameterHandle down, ParameterHandle up, double scale)
      : name_(std::move(name)), down_(std::move(down)), up_(std::move(up)), scale_(scale) {}

  // Adds the adapters' terms to `found` [.., features of this rank], the embeddings of tokens [..].
  // The term is 0 for tokens outside `rows`, the table rows on this rank.
  at::Tensor add(const at::Tensor& found, const at::Tensor& tokens, Range rows, Range features,
                 const StepContext& context) const;

 private:
  std::string name_;
  ParameterHandle down_, up_;  // empty: the model has none
  double scale_ = 1;
};

// Vocabulary head: logits = x table^T + scale * dropout(x) A^T B^T.
class HeadAdapter {
 public:
  // For a head without an adapter of the model: applies per-request adapters only, which are looked
  // up by `name`, the head's full name.
  explicit HeadAdapter(std::string name = "") : name_(std::move(name)) {}
  // down: A [rank, features]; up: B [vocabulary, rank]; dropout: applied to x [batch, sequence,
  // features]; null: none.
  HeadAdapter(std::string name, ParameterHandle down, ParameterHandle up, double scale,
              std::unique_ptr<Dropout> dropout)
      : name_(std::move(name)),
        down_(std::move(down)),
        up_(std::move(up)),
        scale_(scale),
        dropout_(std::move(dropout)) {}

  // Whether the model's own adapter applies in this step.
  bool adapts(const StepContext& context) const { return up_ && context.adapted; }
  // Returns scale * dropout(x) A^T, [.., rank]. x: [.., features]; in training, all tokens of this
  // rank's sequences.
  at::Tensor down_projected(const at::Tensor& x, const StepContext& context,
                            LayerScope& scope) const;
  // Returns rows `rows` of B, [rows, rank].
  at::Tensor up(Range rows, LayerScope& scope) const;
  // Adds the per-request adapters' terms to products [tokens, rows]. x: [tokens, features], the
  // step's tokens or, if `wanted` is defined, the tokens that it names (see
  // VocabularyHead::logits()).
  void add_request_adapters(const at::Tensor& products, const at::Tensor& x, Range rows,
                            const at::Tensor& wanted, const StepContext& context) const;

 private:
  std::string name_;
  ParameterHandle down_, up_;  // empty: the model has none
  double scale_ = 1;
  std::unique_ptr<Dropout> dropout_;
};

}  // namespace colossal::nn
