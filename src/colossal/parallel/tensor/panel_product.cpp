#include "colossal/parallel/tensor/panel_product.h"

#include <ATen/ATen.h>

#include <numeric>

#include "colossal/ops/norm/sum_rows.h"
#include "colossal/ops/product/product.h"

namespace colossal::parallel {
namespace {

// Calls visit(index, columns of y that weight number `index` computes) for each weight.
template <typename Visit>
void visit_outputs(const at::Tensor& y, const std::vector<int64_t>& sizes, const Visit& visit) {
  int64_t begin = 0;
  for (size_t index = 0; index < sizes.size(); ++index) {
    visit(index, y.narrow(1, begin, sizes[index]));
    begin += sizes[index];
  }
}

}  // namespace

ConcatenatedWeights ConcatenatedWeights::of(const std::vector<at::Tensor>& weights, bool in_out) {
  ConcatenatedWeights sizes{.in_out = in_out};
  for (const at::Tensor& weight : weights) sizes.out_sizes.push_back(weight.size(in_out ? 1 : 0));
  return sizes;
}

int64_t ConcatenatedWeights::out_features() const {
  return std::accumulate(out_sizes.begin(), out_sizes.end(), int64_t{0});
}

std::vector<int64_t> ConcatenatedWeights::shape(size_t index, int64_t in_size) const {
  return in_out ? std::vector{in_size, out_sizes[index]} : std::vector{out_sizes[index], in_size};
}

at::Tensor ConcatenatedWeights::concatenate(const std::vector<at::Tensor>& weights) const {
  if (weights.size() == 1) return weights.front().contiguous().view(-1);
  std::vector<at::Tensor> flat;
  for (const at::Tensor& weight : weights) flat.push_back(weight.contiguous().view(-1));
  return at::cat(flat);
}

std::vector<at::Tensor> ConcatenatedWeights::split(const at::Tensor& flat, int64_t in_size) const {
  std::vector<at::Tensor> weights;
  int64_t begin = 0;
  for (size_t index = 0; index < out_sizes.size(); ++index) {
    const int64_t numel = out_sizes[index] * in_size;
    weights.push_back(flat.narrow(0, begin, numel).view(shape(index, in_size)));
    begin += numel;
  }
  return weights;
}

std::vector<at::Tensor> ConcatenatedWeights::oriented(std::vector<at::Tensor> weights) const {
  if (in_out) {
    for (at::Tensor& weight : weights) weight = weight.t();
  }
  return weights;
}

int64_t PackedPanels::bytes(size_t rank) const {
  int64_t bytes = 0;
  for (const auto& layout : layouts[rank]) bytes += layout->bytes();
  return bytes;
}

std::vector<at::Tensor> PackedPanels::unpack(const at::Tensor& bytes, size_t rank,
                                             at::ScalarType type) const {
  std::vector<at::Tensor> numbers;
  int64_t begin = 0;
  for (const auto& layout : layouts[rank]) {
    numbers.push_back(ops::unpack(bytes.narrow(0, begin, layout->bytes()), *layout, type));
    begin += layout->bytes();
  }
  return numbers;
}

void add_product(const at::Tensor& y, const at::Tensor& x, const std::vector<at::Tensor>& weights,
                 const ConcatenatedWeights& sizes) {
  visit_outputs(y, sizes.out_sizes, [&](size_t index, const at::Tensor& columns) {
    ops::add_matrix_product(columns, x, sizes.in_out ? weights[index] : weights[index].t());
  });
}

void add_weight_gradients(const std::vector<at::Tensor>& sums, const at::Tensor& y_gradient,
                          const at::Tensor& x, const ConcatenatedWeights& sizes) {
  visit_outputs(y_gradient, sizes.out_sizes, [&](size_t index, const at::Tensor& columns) {
    sizes.in_out ? ops::add_matrix_product(sums[index], x.t(), columns)
                 : ops::add_matrix_product(sums[index], columns.t(), x);
  });
}

void add_biases(const at::Tensor& y, const std::vector<at::Tensor>& biases,
                const ConcatenatedWeights& sizes) {
  if (biases.empty()) return;
  visit_outputs(y, sizes.out_sizes,
                [&](size_t index, at::Tensor columns) { columns.add_(biases[index]); });
}

std::vector<at::Tensor> bias_gradients(const at::Tensor& y_gradient,
                                       const ConcatenatedWeights& sizes) {
  std::vector<at::Tensor> gradients;
  visit_outputs(y_gradient, sizes.out_sizes, [&](size_t, const at::Tensor& columns) {
    gradients.push_back(ops::sum_rows(columns));
  });
  return gradients;
}

}  // namespace colossal::parallel
