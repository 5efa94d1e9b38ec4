// The parts of which a vocabulary head's layer is made, dense or sharded.
#pragma once

#include <cstdint>

#include "colossal/nn/parameter.h"
#include "colossal/nn/token_table.h"
#include "colossal/nn/vocabulary_adapter.h"
#include "colossal/ops/linear_cross_entropy.h"

namespace colossal::nn {

struct VocabularyHeadParts {
  TokenTable table;
  ParameterHandle bias;  // empty: none
  Range rows;            // of the vocabulary, to which the bias here belongs
  double logit_scale = 1;
  double soft_cap = 0;
  HeadAdapter adapter{};

  // Of x [.., features], which is what the head multiplies. Bias and adapter stay here until the
  // scope ends. Scale and soft cap are both divided by `temperature`, which divides the capped
  // logits by it.
  ops::LogitOptions logit_options(const at::Tensor& x, const StepContext& context,
                                  LayerScope& scope, double temperature = 1) const;
  // Whether losses are made of the table block by block.
  bool goes_by_blocks(const StepContext& context) const {
    return table.is_cut() || table.quantized() || adapter.adapts(context);
  }

  // x [.., features] -> [.., rows here]: logits of the rows of the table that are here, divided by
  // `temperature`. Differentiable, but for a quantized table.
  at::Tensor logits_here(const at::Tensor& x, const StepContext& context,
                         double temperature = 1) const {
    return logits_of_wanted(x, /*wanted=*/{}, context, temperature);
  }
  // The same where x [n, features] is of those tokens that `wanted` names, as
  // VocabularyHead::logits takes it.
  at::Tensor logits_of_wanted(const at::Tensor& x, const at::Tensor& wanted,
                              const StepContext& context, double temperature = 1) const;
};

// rows [tokens, features] -> [n, features], of `wanted` as VocabularyHead::logits takes it.
at::Tensor wanted_rows(const at::Tensor& rows, const at::Tensor& wanted);

}  // namespace colossal::nn
