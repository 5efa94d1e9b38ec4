// Low-rank adapters of a vocabulary's table (E. Hu et al. 2021, "LoRA"), in embeddings and in
// vocabulary heads. Every rank holds A and B whole, since they are small compared to the table, and
// computes the terms for its part of the table.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// For an embedding: table[tokens] + scale * A^T[tokens] B^T.
class EmbeddingAdapter {
 public:
  // Makes an adapter that applies per-request adapters only. name: the full name of the embedding,
  // by which they are looked up.
  explicit EmbeddingAdapter(std::string name) : name_(std::move(name)) {}
  // Makes an adapter that belongs to the model and applies per-request adapters, too. down: A
  // [rank, vocabulary]; up: B [features, rank].
  EmbeddingAdapter(std::string name, ParameterHandle down, ParameterHandle up, double scale)
      : name_(std::move(name)), down_(std::move(down)), up_(std::move(up)), scale_(scale) {}

  // Returns `found` [.., features of this rank], the embeddings of tokens [..], plus the adapters'
  // terms. rows: the table rows on this rank; the term of a token outside them is 0. features:
  // those of this rank.
  at::Tensor add(const at::Tensor& found, const at::Tensor& tokens, Range rows, Range features,
                 const StepContext& context) const;

 private:
  std::string name_;
  ParameterHandle down_, up_;  // empty: the model has none
  double scale_ = 1;
};

// For a vocabulary head: logits = x table^T + scale * dropout(x) A^T B^T.
class HeadAdapter {
 public:
  // Makes an adapter that applies per-request adapters only. name: the full name of the head, by
  // which they are looked up.
  explicit HeadAdapter(std::string name = "") : name_(std::move(name)) {}
  // Makes an adapter that belongs to the model and applies per-request adapters, too. down: A
  // [rank, features]; up: B [vocabulary, rank]; dropout: applied to x [batch, sequence, features];
  // null: none.
  HeadAdapter(std::string name, ParameterHandle down, ParameterHandle up, double scale,
              std::unique_ptr<Dropout> dropout)
      : name_(std::move(name)),
        down_(std::move(down)),
        up_(std::move(up)),
        scale_(scale),
        dropout_(std::move(dropout)) {}

  // Whether the model's own adapter applies in this step.
  bool adapts(const StepContext& context) const { return up_ && context.adapted; }
  // Returns scale * dropout(x) A^T, [.., rank]. x: [.., features], in training with all tokens of
  // this rank's sequences. Requires adapts().
  at::Tensor down_projected(const at::Tensor& x, const StepContext& context,
                            LayerScope& scope) const;
  // Returns rows `rows` of B, [number of rows, rank]. Requires adapts().
  at::Tensor up(Range rows, LayerScope& scope) const;
  // Adds the per-request adapters' terms to products [tokens, number of rows], the logits of table
  // rows `rows`. x: [tokens, features], the step's tokens or, if `wanted` is defined, those that it
  // lists (see VocabularyHead::logits()).
  void add_request_adapters(const at::Tensor& products, const at::Tensor& x, Range rows,
                            const at::Tensor& wanted, const StepContext& context) const;

 private:
  std::string name_;
  ParameterHandle down_, up_;  // empty: the model has none
  double scale_ = 1;
  std::unique_ptr<Dropout> dropout_;
};

}  // namespace colossal::nn
