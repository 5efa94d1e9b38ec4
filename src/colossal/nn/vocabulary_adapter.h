// Low-rank adapters of the vocabulary table (E. Hu et al. 2021, "LoRA") in token embeddings and in
// vocabulary heads: adapters of the model, and per-request adapters (StepServices::adapted_rows). r
// is the rank of an adapter (not a rank of a group). Every rank holds the adapter's matrices A and
// B whole, which are small compared to the table. A rank computes the adapter's terms for its own
// part of the table.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// The adapter of an embedding, which then computes table[tokens] + scale * A^T[tokens] B^T.
class EmbeddingAdapter {
 public:
  // For a model without an adapter of this embedding: applies per-request adapters only. name: the
  // full name of the embedding; per-request adapters are looked up by it.
  explicit EmbeddingAdapter(std::string name) : name_(std::move(name)) {}
  // For a model with an adapter of this embedding: applies the model's and per-request adapters.
  // down: A [r, vocabulary]; up: B [features, r].
  EmbeddingAdapter(std::string name, ParameterHandle down, ParameterHandle up, double scale)
      : name_(std::move(name)), down_(std::move(down)), up_(std::move(up)), scale_(scale) {}

  // Returns `found` plus the terms of the model's adapter (if context.adapted is true) and of the
  // per-request adapters (context.services.adapted_rows).
  //   found     this rank's table rows for `tokens`, [.., features on this rank]
  //   tokens    [..] int64
  //   rows      the table rows on this rank; for tokens outside of these rows, the terms are 0
  //   features  the features on this rank
  at::Tensor add(const at::Tensor& found, const at::Tensor& tokens, Range rows, Range features,
                 const StepContext& context) const;

 private:
  std::string name_;
  ParameterHandle down_, up_;  // empty handles: the model has no adapter of this embedding
  double scale_ = 1;
};

// The adapter of a vocabulary head, which then computes x table^T + scale * dropout(x) A^T B^T in
// place of the product x table^T. The head computes the sum from parts: if adapts() is true, it
// adds down_projected() up()^T to x table^T. For per-request adapters it calls
// add_request_adapters().
class HeadAdapter {
 public:
  // For a model without an adapter of this head: applies per-request adapters only. name: the full
  // name of the head; per-request adapters are looked up by it. Empty: none is found, so nothing is
  // ever applied.
  explicit HeadAdapter(std::string name = "") : name_(std::move(name)) {}
  // For a model with an adapter of this head: applies the model's and per-request adapters. down: A
  // [r, features]; up: B [vocabulary, r]; dropout: of the input x [batch, sequence, features],
  // null: none.
  HeadAdapter(std::string name, ParameterHandle down, ParameterHandle up, double scale,
              std::unique_ptr<Dropout> dropout)
      : name_(std::move(name)),
        down_(std::move(down)),
        up_(std::move(up)),
        scale_(scale),
        dropout_(std::move(dropout)) {}

  // Returns whether the model has an adapter of this head and applies it in this forward pass
  // (context.adapted).
  bool adapts(const StepContext& context) const { return up_ && context.adapted; }
  // The matrix that one of the following two functions reads stays on the device until `scope`
  // ends.
  //
  // Returns scale * dropout(x) A^T of the model's adapter, [.., r]. x: [.., features]; in training
  // with dropout, x must consist of whole sequences of context.tokens().sequence tokens, since the
  // dropout mask depends on the sequence and the position. Call it only if adapts() is true.
  at::Tensor down_projected(const at::Tensor& x, const StepContext& context,
                            LayerScope& scope) const;
  // Returns the given rows of B of the model's adapter, [number of rows, r]: a view, valid until
  // `scope` ends. Call it only if adapts() is true.
  at::Tensor up(Range rows, LayerScope& scope) const;
  // Adds the terms of per-request adapters to `products`, in place.
  //   products  x table^T for the table rows `rows`, [tokens, number of rows]
  //   x         [tokens, features]: if `wanted` is undefined, all tokens of the forward pass; else
  //             the tokens that `wanted` lists
  //   wanted    [n] int64 on the host: ascending indices of tokens of the forward pass; undefined:
  //             all tokens (see VocabularyHead::logits())
  void add_request_adapters(const at::Tensor& products, const at::Tensor& x, Range rows,
                            const at::Tensor& wanted, const StepContext& context) const;

 private:
  std::string name_;
  ParameterHandle down_, up_;  // empty handles: the model has no adapter of this head
  double scale_ = 1;
  std::unique_ptr<Dropout> dropout_;
};

}  // namespace colossal::nn
