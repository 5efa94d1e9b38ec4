// PooledProjection: a vector for each row of a batch, from the tokens of the row.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "colossal/base/range.h"
#include "colossal/nn/activation_part.h"
#include "colossal/nn/parameter.h"
#include "colossal/nn/step_context.h"

namespace colossal::nn {

class Builder;

// Parameters, which every rank holds whole: NAME.weight [out_features, in_features] and NAME.bias
// [out_features], if `bias`; none if out_features is 0: there is then no projection.
struct PooledProjectionOptions {
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool bias = false;
  Initializer initializer = Initializer::normal(0.02);  // of the weight; the bias starts as zeros
};

// Written once for all tensor modes: each rank sums its part of the tokens and features, and
// projects the sum of all parts. Law: an all-reduce of batch * in_features numbers over the ranks
// that divide activations, in the forward pass only.
class PooledProjection {
 public:
  PooledProjection(Builder& build, const std::string& name, const PooledProjectionOptions& options);

  // x: an activation between blocks, [batch, sequence, in_features] or this rank's part of it.
  // pooling: [batch, sequence], the share of each token in the vector of its row; the shares of a
  // row have the sum 1 over all ranks of sp. Returns (sum of pooling * x) weight^T + bias, [batch,
  // out_features], the same on all ranks of tp; with sp > 1 the part of this rank's positions, of
  // which the sum over sp is to be taken.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& pooling,
                     const StepContext& context) const;

 private:
  // Returns the weighted sum of each row's tokens, [batch, in_features].
  at::Tensor pooled(const at::Tensor& x, const at::Tensor& pooling,
                    const StepContext& context) const;

  PooledProjectionOptions options_;
  ParameterHandle weight_, bias_;  // empty handles if there are none
  Range features_;                 // of in_features, those of this rank's activations
  TokenPart token_part_;
  SumOfParts sum_of_parts_;
};

}  // namespace colossal::nn
