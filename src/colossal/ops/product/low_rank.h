// The up-projection of low-rank adapters (E. Hu et al., "LoRA: Low-Rank Adaptation of Large
// Language Models", 2021). An adapter adds scale * (x down^T) up^T to the output of a linear layer.
// The down-projection z = x down^T is an ordinary linear layer; add_low_rank() does the rest.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

// The adapter of one linear layer. The layer is one of several whose outputs are concatenated along
// the last dim (fused_linear.h).
struct LowRankUp {
  at::Tensor weight;         // `up`, [out_features, rank]; undefined: this layer has no adapter
  int64_t out_features = 0;  // output features of the layer
  int64_t z_offset = 0;      // column of z at which this adapter's `rank` columns begin
  double scale = 1;
};

// Adds scale * z' weight^T to the columns of y that belong to each layer, where z' are the columns
// of z that belong to the layer's adapter. Works in place, and returns y.
//   y    [.., sum of out_features], contiguous: the concatenated outputs of the layers. The
//        operator that computed y must not have saved it for its backward pass
//   z    [.., sum of ranks], with as many rows as y: the concatenated down-projections
//   ups  one for each layer, in the order of y's columns
// Differentiable in y, z and the weights. Throws InternalError if the out_features do not add up to
// the number of y's columns.
at::Tensor add_low_rank(const at::Tensor& y, const at::Tensor& z,
                        const std::vector<LowRankUp>& ups);

}  // namespace colossal::ops
