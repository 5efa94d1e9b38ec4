// The up-projection of low-rank adapters (E. Hu et al., "LoRA: Low-Rank Adaptation of Large
// Language Models", 2021).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

// The up-projection of the adapter of one linear layer, among several whose outputs are
// concatenated along the last dim.
struct LowRankUp {
  at::Tensor weight;         // [out_features, rank]; undefined: this layer has no adapter
  int64_t out_features = 0;  // of the layer
  int64_t z_offset = 0;      // column of z at which this adapter's `rank` columns begin
  double scale = 1;
};

// To each layer's columns of y, adds scale * z' weight^T, where z' are the adapter's columns of z.
// Works in place, and returns y. y: [.., sum of out_features], dense; the operator that computed it
// must not have saved it for backward. z: [.., columns of all adapters], the results of the
// adapters' down-projections, with as many rows as y. Differentiable in y, z and the weights.
// Throws InternalError if the out_features do not add up to y's columns.
at::Tensor add_low_rank(const at::Tensor& y, const at::Tensor& z,
                        const std::vector<LowRankUp>& ups);

}  // namespace colossal::ops
