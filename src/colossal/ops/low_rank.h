// The second half of a low-rank adapter's product (E. Hu et al., "LoRA: Low-Rank Adaptation of
// Large Language Models", 2021).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

// One of several products whose results lie side by side.
struct LowRankUp {
  at::Tensor weight;  // [out_features, rank]; undefined: this product gets nothing
  int64_t out_features = 0;
  int64_t first_of_z = 0;  // the first of the rank columns of z that it multiplies
};

// y [.., sum of out_features] += scale * z[.., rank columns] weight^T, for each product its columns
// of y. z is [.., any number of columns], of as many rows as y. In place: the result is y, and has
// the gradients of all three. y is dense and is not kept by the operator that made it.
at::Tensor add_low_rank(const at::Tensor& y, const at::Tensor& z, const std::vector<LowRankUp>& ups,
                        double scale);

}  // namespace colossal::ops
