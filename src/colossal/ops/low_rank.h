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
  int64_t first_of_z = 0;  // the first of the `rank` columns of z that it multiplies
  double scale = 1;
};

// Adds scale * z weight^T of each product, from its columns of z, to its columns of y, [.., sum of
// out_features]. z: [.., any number of columns], with as many rows as y. Works in place: the result
// is y, differentiable in y, z and the weights. y must be dense, and not be kept by the operator
// that made it.
at::Tensor add_low_rank(const at::Tensor& y, const at::Tensor& z,
                        const std::vector<LowRankUp>& ups);

}  // namespace colossal::ops
