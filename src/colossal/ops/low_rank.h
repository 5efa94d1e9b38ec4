// The up-projection of low-rank adapters (E. Hu et al., "LoRA: Low-Rank Adaptation of Large
// Language Models", 2021).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

// Up-projection of one of several linear layers whose outputs are concatenated along the last dim.
struct LowRankUp {
  at::Tensor weight;  // [out_features, rank]; undefined: this layer has no adapter
  int64_t out_features = 0;
  int64_t z_offset = 0;  // column of z at which this adapter's `rank` columns begin
  double scale = 1;
};

// Adds scale * z weight^T to each layer's columns of y, with z restricted to the adapter's columns.
// y: [.., sum of out_features]; z: [.., any number of columns], the down-projected inputs, with as
// many rows as y. In place: returns y. Differentiable in y, z and the weights. y must be dense, and
// must not be saved for backward by the operator that computed it. Throws InternalError if the
// out_features do not add up to y's columns.
at::Tensor add_low_rank(const at::Tensor& y, const at::Tensor& z,
                        const std::vector<LowRankUp>& ups);

}  // namespace colossal::ops
