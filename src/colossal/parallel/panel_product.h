// Matrix products that are computed panel by panel, with one weight or several whose outputs are
// concatenated.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "colossal/ops/packed_weight.h"

namespace colossal::parallel {

// Sizes of weights whose outputs are concatenated. in_out: each weight is stored as [in, out],
// otherwise as [out, in].
struct ConcatenatedWeights {
  std::vector<int64_t> out_sizes;
  bool in_out = false;

  static ConcatenatedWeights of(const std::vector<at::Tensor>& weights, bool in_out);

  int64_t out_features() const;
  std::vector<int64_t> shape(size_t index, int64_t in_size) const;
  // Returns all weights one after the other in one flat tensor; a single contiguous weight is not
  // copied. unpack() is the inverse and returns views.
  at::Tensor pack(const std::vector<at::Tensor>& weights) const;
  std::vector<at::Tensor> unpack(const at::Tensor& flat, int64_t in_size) const;
  // Returns each weight as a view [out, in].
  std::vector<at::Tensor> oriented(std::vector<at::Tensor> weights) const;
};

// Layouts of packed weights (ops::PackedLayout) of which each rank of a group holds one panel.
struct PackedPanels {
  std::vector<std::vector<std::shared_ptr<const ops::PackedLayout>>> layouts;  // [rank][weight]

  bool empty() const { return layouts.empty(); }  // true: the weights are not packed
  // Returns the total bytes of a rank's panels.
  int64_t bytes(size_t rank) const;
  // Dequantizes the panels of rank `rank`, which lie one after the other in `bytes`. Returns one
  // tensor [outputs, inputs] of type `type` per weight.
  std::vector<at::Tensor> unpack(const at::Tensor& bytes, size_t rank, at::ScalarType type) const;
};

// y [tokens, out_features] += x [tokens, in] times the weights. y may have a wider type than x.
void add_product(const at::Tensor& y, const at::Tensor& x, const std::vector<at::Tensor>& weights,
                 const ConcatenatedWeights& sizes);
// sums[i] += gradient of weight i. y_gradient: [tokens, out_features]; x: [tokens, in].
void add_weight_gradients(const std::vector<at::Tensor>& sums, const at::Tensor& y_gradient,
                          const at::Tensor& x, const ConcatenatedWeights& sizes);
// y += biases. biases: one per weight, or empty.
void add_biases(const at::Tensor& y, const std::vector<at::Tensor>& biases,
                const ConcatenatedWeights& sizes);
// Returns the gradient of each bias: the sum over all rows of the bias's columns of y_gradient.
std::vector<at::Tensor> bias_gradients(const at::Tensor& y_gradient,
                                       const ConcatenatedWeights& sizes);

}  // namespace colossal::parallel
