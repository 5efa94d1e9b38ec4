// The parameters and options of a vocabulary head (LM head), and the computation of its logits on
// this rank. Dense and sharded heads share it. The logits of an input x are soft_cap *
// tanh(logit_scale * (x table^T + bias) / soft_cap), with the term of an adapter added to x
// table^T.
//
// wanted, below: [n] int64 on the host, ascending indices of tokens in the flattened tokens [batch
// * sequence] of the forward pass.
#pragma once

#include <cstdint>

#include "colossal/nn/parameter.h"
#include "colossal/nn/token_table.h"
#include "colossal/nn/vocabulary_adapter.h"
#include "colossal/ops/loss/linear_cross_entropy.h"

namespace colossal::nn {

struct VocabularyHeadParts {
  TokenTable table;
  ParameterHandle bias;  // empty handle: the head has no bias
  Range rows;            // the vocabulary rows whose logits this rank computes
  double logit_scale = 1;
  double soft_cap = 0;  // 0: no cap, logits = logit_scale * (..)
  HeadAdapter adapter{};

  // Returns the options with which ops::logits_from_products() and the losses compute logits
  // divided by `temperature`. x: the head's input, [.., features]; the options include the
  // down-projection of x by the model's adapter. Bias and adapter stay on the device until `scope`
  // ends.
  ops::LogitOptions logit_options(const at::Tensor& x, const StepContext& context,
                                  LayerScope& scope, double temperature = 1) const;
  // Returns whether losses must be computed block by block (ops/row_blocks.h), because the table is
  // cut into blocks or quantized, or because the model's adapter applies.
  bool computes_by_blocks(const StepContext& context) const {
    return table.is_cut() || table.quantized() || adapter.adapts(context);
  }

  // Returns this rank's logits for x [.., features], divided by `temperature`: [.., number of
  // `rows`]. Differentiable in x, the bias, the weights of the model's adapter and, unless it is
  // quantized, the table.
  at::Tensor logits_here(const at::Tensor& x, const StepContext& context,
                         double temperature = 1) const {
    return logits_of_wanted(x, /*wanted=*/{}, context, temperature);
  }
  // Like logits_here(), but x [n, features] has only the n tokens that `wanted` lists. `wanted`
  // tells which of them have per-request adapters (StepServices::adapted_rows). If `wanted` is
  // undefined, x must have all tokens of the forward pass.
  at::Tensor logits_of_wanted(const at::Tensor& x, const at::Tensor& wanted,
                              const StepContext& context, double temperature = 1) const;
};

// Selects the tokens `wanted`, which must be defined, from rows [tokens, features]. Returns [n,
// features].
at::Tensor wanted_rows(const at::Tensor& rows, const at::Tensor& wanted);

}  // namespace colossal::nn
