// Building blocks of the tensor-parallel products in 2d, 2.5d and 3d, which are computed panel by
// panel: a panel is the part of an operand that is sent between ranks during a product. A product y
// = x W^T + b may have several weights W, whose outputs are concatenated.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "colossal/ops/product/packed_weight.h"

namespace colossal::parallel {

// Sizes of weights whose outputs are concatenated. Below, in_size is the number of inputs of each
// weight.
struct ConcatenatedWeights {
  std::vector<int64_t> out_sizes;  // number of outputs of each weight
  bool in_out = false;             // true: weights are stored as [in, out]; false: as [out, in]

  // Returns the sizes of these weights. weights: in their stored shapes.
  static ConcatenatedWeights of(const std::vector<at::Tensor>& weights, bool in_out);

  int64_t out_features() const;  // sum of out_sizes
  // Returns the stored shape of weight number `index`.
  std::vector<int64_t> shape(size_t index, int64_t in_size) const;
  // Concatenates all weights in one flat tensor. A single contiguous weight is not copied.
  at::Tensor concatenate(const std::vector<at::Tensor>& weights) const;
  // Returns the weights in the flat tensor that concatenate() returned, as views in their stored
  // shapes.
  std::vector<at::Tensor> split(const at::Tensor& flat, int64_t in_size) const;
  // Returns each weight as a view [out, in].
  std::vector<at::Tensor> oriented(std::vector<at::Tensor> weights) const;
};

// Layouts of packed, i.e. quantized, weights (ops::PackedLayout). Each rank of a group holds one
// panel of every weight.
struct PackedPanels {
  std::vector<std::vector<std::shared_ptr<const ops::PackedLayout>>> layouts;  // [rank][weight]

  bool empty() const { return layouts.empty(); }  // true: the weights are not packed
  // Returns the bytes of the panels of all weights on one rank.
  int64_t bytes(size_t rank) const;
  // Dequantizes the panels that rank `rank` holds. bytes: these panels, concatenated in the order
  // of the weights. Returns one tensor [outputs, inputs] of type `type` per weight.
  std::vector<at::Tensor> unpack(const at::Tensor& bytes, size_t rank, at::ScalarType type) const;
};

// Adds the products of x [tokens, in] with the weights to y [tokens, out_features], in place. y may
// have a wider type than x. weights: in their stored shapes.
void add_product(const at::Tensor& y, const at::Tensor& x, const std::vector<at::Tensor>& weights,
                 const ConcatenatedWeights& sizes);
// Adds the gradient of each weight i to sums[i], in place. sums[i]: in the stored shape of weight
// i, may have a wider type than x. y_gradient: [tokens, out_features]; x: [tokens, in].
void add_weight_gradients(const std::vector<at::Tensor>& sums, const at::Tensor& y_gradient,
                          const at::Tensor& x, const ConcatenatedWeights& sizes);
// Adds the biases to y [tokens, out_features], in place. biases: one per weight, or empty.
void add_biases(const at::Tensor& y, const std::vector<at::Tensor>& biases,
                const ConcatenatedWeights& sizes);
// Returns the gradient of each bias, [out_sizes[i]]: the sum over tokens of its columns of
// y_gradient [tokens, out_features].
std::vector<at::Tensor> bias_gradients(const at::Tensor& y_gradient,
                                       const ConcatenatedWeights& sizes);

}  // namespace colossal::parallel
