// Products that are made panel by panel, of one weight or several side by side.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "colossal/ops/packed_weight.h"

namespace colossal::parallel {

// Weights side by side, stored as [in, out] each or as [out, in].
struct SideBySide {
  std::vector<int64_t> out_sizes;
  bool in_out = false;

  static SideBySide of(const std::vector<at::Tensor>& weights, bool in_out);

  int64_t out_features() const;
  std::vector<int64_t> shape(size_t index, int64_t in_size) const;
  // All weights in one flat tensor, one after the other; a single weight is itself.
  at::Tensor pack(const std::vector<at::Tensor>& weights) const;
  std::vector<at::Tensor> unpack(const at::Tensor& flat, int64_t in_size) const;
  // Returns each weight as [out, in].
  std::vector<at::Tensor> oriented(std::vector<at::Tensor> weights) const;
};

// How ranks hold weights side by side that are packed: each rank of a group has a panel of each.
struct PackedPanels {
  std::vector<std::vector<std::shared_ptr<const ops::PackedLayout>>> layouts;  // [rank][weight]

  bool empty() const { return layouts.empty(); }  // the weights are not packed
  // Of a rank's panels, one after the other.
  int64_t bytes(size_t rank) const;
  // The numbers of a rank's panels, [outputs, inputs] each.
  std::vector<at::Tensor> unpack(const at::Tensor& bytes, size_t rank, at::ScalarType type) const;
};

// y [tokens, out_features] += x [tokens, in] times the weights; y may be of a wider type.
void add_product(const at::Tensor& y, const at::Tensor& x, const std::vector<at::Tensor>& weights,
                 const SideBySide& sizes);
// Gradients of the weights += those of the product.
void add_weight_gradients(const std::vector<at::Tensor>& sums, const at::Tensor& y_gradient,
                          const at::Tensor& x, const SideBySide& sizes);
// y += biases, if there are any.
void add_biases(const at::Tensor& y, const std::vector<at::Tensor>& biases,
                const SideBySide& sizes);
// Sums of y_gradient's rows, for each bias.
std::vector<at::Tensor> bias_gradients(const at::Tensor& y_gradient, const SideBySide& sizes);

}  // namespace colossal::parallel
