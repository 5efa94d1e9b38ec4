// Low-rank adapters of a vocabulary's table (E. Hu et al. 2021, "LoRA"), where it is looked up and
// where a head multiplies by it. Every rank has all of A and B, which are small beside the table;
// each makes what the part of the table here makes.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// found + scale * A^T[tokens] B^T.
class EmbeddingAdapter {
 public:
  // name: the embedding's, by which rows bring adapters of their own. Adapts nothing else.
  explicit EmbeddingAdapter(std::string name) : name_(std::move(name)) {}
  // down: A [rank, vocabulary]; up: B [features, rank].
  EmbeddingAdapter(std::string name, ParameterHandle down, ParameterHandle up, double scale)
      : name_(std::move(name)), down_(std::move(down)), up_(std::move(up)), scale_(scale) {}

  // found: [.., features here] of tokens [..] whose rows are among `rows`, zeros for others.
  at::Tensor add(const at::Tensor& found, const at::Tensor& tokens, Range rows, Range features,
                 const StepContext& context) const;

 private:
  std::string name_;
  ParameterHandle down_, up_;  // empty: the model has none
  double scale_ = 1;
};

// Logits x table^T + scale * dropout(x) A^T B^T.
class HeadAdapter {
 public:
  // name: the head's, by which rows bring adapters of their own. Adapts nothing else.
  explicit HeadAdapter(std::string name = "") : name_(std::move(name)) {}
  // down: A [rank, features]; up: B [vocabulary, rank]; dropout: of x as sequences; null: none.
  HeadAdapter(std::string name, ParameterHandle down, ParameterHandle up, double scale,
              std::unique_ptr<Dropout> dropout)
      : name_(std::move(name)),
        down_(std::move(down)),
        up_(std::move(up)),
        scale_(scale),
        dropout_(std::move(dropout)) {}

  // Whether the model's own does.
  bool adapts(const StepContext& context) const { return up_ && context.adapted; }
  // scale * dropout(x) A^T, [.., rank], of x [.., features]; in training x is all tokens of the
  // sequences here.
  at::Tensor narrowed(const at::Tensor& x, const StepContext& context, LayerScope& scope) const;
  // B of these rows of the vocabulary, [rows, rank].
  at::Tensor up(Range rows, LayerScope& scope) const;
  // Adds to products [tokens, rows here] of x [tokens, features] what the tokens bring along. They
  // are those of the step, or of these the ones that `wanted` names, as VocabularyHead::logits
  // takes it.
  void add_brought(const at::Tensor& products, const at::Tensor& x, Range rows,
                   const at::Tensor& wanted, const StepContext& context) const;

 private:
  std::string name_;
  ParameterHandle down_, up_;  // empty: the model has none
  double scale_ = 1;
  std::unique_ptr<Dropout> dropout_;
};

}  // namespace colossal::nn
