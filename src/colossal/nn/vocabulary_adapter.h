// Low-rank adapters of a vocabulary's table (E. Hu et al. 2021, "LoRA"), where it is looked up and
// where a head multiplies by it. Every rank has all of A and B, which are small beside the table;
// each makes what the part of the table here makes.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// found + scale * A^T[tokens] B^T.
class EmbeddingAdapter {
 public:
  EmbeddingAdapter() = default;  // adapts nothing
  // down: A [rank, vocabulary]; up: B [features, rank].
  EmbeddingAdapter(ParameterHandle down, ParameterHandle up, double scale)
      : down_(std::move(down)), up_(std::move(up)), scale_(scale) {}

  // found: [.., features here] of tokens [..] whose rows are among `rows`, zeros for others.
  at::Tensor add(const at::Tensor& found, const at::Tensor& tokens, Range rows, Range features,
                 const StepContext& context) const;

 private:
  ParameterHandle down_, up_;  // empty: nothing is adapted
  double scale_ = 1;
};

// Logits x table^T + scale * dropout(x) A^T B^T.
class HeadAdapter {
 public:
  HeadAdapter() = default;  // adapts nothing
  // down: A [rank, features]; up: B [vocabulary, rank]; dropout: of x as sequences; null: none.
  HeadAdapter(ParameterHandle down, ParameterHandle up, double scale,
              std::unique_ptr<Dropout> dropout)
      : down_(std::move(down)), up_(std::move(up)), scale_(scale), dropout_(std::move(dropout)) {}

  bool adapts(const StepContext& context) const { return up_ && context.adapted; }
  // scale * dropout(x) A^T, [.., rank], of x [.., features]; in training x is all tokens of the
  // sequences here.
  at::Tensor narrowed(const at::Tensor& x, const StepContext& context, LayerScope& scope) const;
  // B of these rows of the vocabulary, [rows, rank].
  at::Tensor up(Range rows, LayerScope& scope) const;

 private:
  ParameterHandle down_, up_;  // empty: nothing is adapted
  double scale_ = 1;
  std::unique_ptr<Dropout> dropout_;
};

}  // namespace colossal::nn
