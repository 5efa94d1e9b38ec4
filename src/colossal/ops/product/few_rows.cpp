#include "colossal/ops/product/few_rows.h"

#include <torch/library.h>

#include <algorithm>

#include "colossal/base/cpu_features.h"
#include "colossal/base/error.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/kernels/few_rows.h"
#include "colossal/ops/parallel_for.h"
#include "colossal/ops/product/tile_product.h"

namespace colossal::ops {
namespace {

// Maximum number of rows. For more rows LibTorch's products are faster, since they reuse weights in
// caches.
constexpr int64_t kFewRows = 32;
// Minimum number of weights per thread.
constexpr int64_t kNumbersOfThread = 1 << 15;

thread_local bool batch_invariant = false;

// in_out: the weight is stored as [in, out], that is with contiguous columns.
kernels::MultiplyRows kernel_of(at::ScalarType type, bool in_out) {
  const kernels::RowsKernels& kernels = kernels::rows_kernels();
  switch (type) {
    case at::kBFloat16:
      return in_out ? kernels.bfloat16_in_out : kernels.bfloat16;
    case at::kFloat:
      return in_out ? kernels.float32_in_out : kernels.float32;
    case at::kDouble:
      return in_out ? kernels.float64_in_out : kernels.float64;
    default:
      return nullptr;
  }
}

bool has_dense_rows(const at::Tensor& matrix) {
  return matrix.dim() == 2 && (matrix.size(1) == 1 || matrix.stride(1) == 1);
}

void few_rows_product_cpu(const at::Tensor& y, const at::Tensor& x, at::TensorList weights,
                          at::TensorList biases) {
  COLOSSAL_CHECK(kernel_of(x.scalar_type(), false) && has_dense_rows(x) && has_dense_rows(y), "{}",
                 at::toString(x.scalar_type()));
  const int64_t element = x.element_size();
  std::vector<kernels::RowsProduct> products;
  std::vector<int64_t> ends;  // the end of each weight's columns in y
  int64_t outputs = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const at::Tensor& weight = weights[i];
    products.push_back({.rows = x.size(0),
                        .depth = x.size(1),
                        .x = x.const_data_ptr(),
                        .x_stride = x.stride(0),
                        .weight = weight.const_data_ptr(),
                        .weight_stride = weight.stride(has_dense_rows(weight) ? 0 : 1),
                        .bias = biases.empty() ? nullptr : biases[i].const_data_ptr(),
                        .y = static_cast<char*>(y.mutable_data_ptr()) + outputs * element,
                        .y_stride = y.stride(0)});
    ends.push_back(outputs += weight.size(0));
  }
  if (x.size(0) == 0) return;
  const int64_t least = std::max<int64_t>(1, kNumbersOfThread / std::max<int64_t>(1, x.size(1)));
  parallel_for(0, outputs, least, [&](int64_t begin, int64_t end) {
    for (size_t i = 0; i < products.size(); ++i) {
      const int64_t before = i == 0 ? 0 : ends[i - 1];
      const int64_t first = std::max(begin, before), last = std::min(end, ends[i]);
      if (first >= last) continue;
      kernel_of(x.scalar_type(), !has_dense_rows(weights[i]))(products[i], first - before,
                                                              last - before);
    }
  });
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def("few_rows_product(Tensor(a!) y, Tensor x, Tensor[] weights, Tensor[] biases) -> ()");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("few_rows_product", few_rows_product_cpu);
}

}  // namespace

BatchInvariantProducts::BatchInvariantProducts() : outer_(batch_invariant) {
  batch_invariant = true;
}

BatchInvariantProducts::~BatchInvariantProducts() {
  batch_invariant = outer_;
}

bool are_few_rows(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                  int64_t most_beside_tiles) {
  if (!x.is_cpu()) return false;
  const bool in_tiles =
      x.scalar_type() == at::kBFloat16 && has_amx_bf16() &&
      std::ranges::all_of(weights, [&](const at::Tensor& weight) {
        return weight.scalar_type() == at::kBFloat16 && supports_tile_product(x, weight.t(), x);
      });
  const int64_t most = in_tiles ? most_beside_tiles : kFewRows;
  if (x.size(0) > most && !batch_invariant) return false;
  if (!kernel_of(x.scalar_type(), false) || !has_dense_rows(x)) return false;
  return std::ranges::all_of(weights, [&](const at::Tensor& weight) {
    return weight.is_cpu() && weight.scalar_type() == x.scalar_type() &&
           (has_dense_rows(weight) || has_dense_rows(weight.t()));
  });
}

void few_rows_product(const at::Tensor& y, const at::Tensor& x,
                      const std::vector<at::Tensor>& weights,
                      const std::vector<at::Tensor>& biases) {
  static const auto op =
      find_operator<decltype(few_rows_product_cpu)>("colossal::few_rows_product");
  op.call(y, x, weights, biases);
}

}  // namespace colossal::ops
