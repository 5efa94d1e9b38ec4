// The parameters of a vocabulary head, dense or sharded, and its logits on this rank.
#pragma once

#include <cstdint>

#include "colossal/nn/parameter.h"
#include "colossal/nn/token_table.h"
#include "colossal/nn/vocabulary_adapter.h"
#include "colossal/ops/linear_cross_entropy.h"

namespace colossal::nn {

struct VocabularyHeadParts {
  TokenTable table;
  ParameterHandle bias;  // empty handle: none
  Range rows;            // vocabulary rows of `bias` and of the adapter on this rank
  double logit_scale = 1;
  double soft_cap = 0;
  HeadAdapter adapter{};

  // Returns the logit options for the head's input x [.., features]. Bias and adapter stay on the
  // device until `scope` ends. Both logit_scale and soft_cap of the result are divided by
  // `temperature`, which divides the capped logits by it.
  ops::LogitOptions logit_options(const at::Tensor& x, const StepContext& context,
                                  LayerScope& scope, double temperature = 1) const;
  // Whether losses must be computed one block of the table after the other.
  bool computes_by_blocks(const StepContext& context) const {
    return table.is_cut() || table.quantized() || adapter.adapts(context);
  }

  // x [.., features] -> [.., table rows on this rank]: logits divided by `temperature`.
  // Differentiable in x, and in the table unless it is quantized.
  at::Tensor logits_here(const at::Tensor& x, const StepContext& context,
                         double temperature = 1) const {
    return logits_of_wanted(x, /*wanted=*/{}, context, temperature);
  }
  // Like logits_here(), but x [n, features] has only the tokens whose indices `wanted` lists (see
  // VocabularyHead::logits()). If `wanted` is undefined, x has all tokens.
  at::Tensor logits_of_wanted(const at::Tensor& x, const at::Tensor& wanted,
                              const StepContext& context, double temperature = 1) const;
};

// rows [tokens, features] -> [n, features]: selects the tokens `wanted` (see
// VocabularyHead::logits()), which must be defined.
at::Tensor wanted_rows(const at::Tensor& rows, const at::Tensor& wanted);

}  // namespace colossal::nn
