#include "colossal/ops/norm/sum_rows.h"

#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::ops {
namespace {

// Columns that a thread sums at a time: their sums stay in the first-level cache.
constexpr int64_t kColumns = 4096;

at::Tensor zero_sums(const at::Tensor& rows) {
  return at::zeros({rows.size(1)}, rows.options().dtype(at::kFloat));
}

// Sums bf16 rows in fp32, and rounds once. LibTorch's sum takes several times as long as reading
// the rows; this does not.
at::Tensor sum_rows_cpu(const at::Tensor& rows) {
  if (rows.scalar_type() != at::kBFloat16) return rows.sum(0);
  const at::Tensor sums = zero_sums(rows);
  const auto* from = rows.const_data_ptr<at::BFloat16>();
  auto* to = sums.mutable_data_ptr<float>();
  parallel_for(0, rows.size(1), kColumns, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kColumns) {
      const int64_t columns = std::min(kColumns, end - first);
      for (int64_t row = 0; row < rows.size(0); ++row) {
        kernels::vector_kernels().accumulate(from + row * rows.stride(0) + first,
                                             kernels::ElementType::bfloat16, to + first,
                                             kernels::ElementType::float32, columns);
      }
    }
  });
  return sums.to(at::kBFloat16);
}

at::Tensor sum_rows_any(const at::Tensor& rows) {
  return rows.sum(0);
}

// Allocates what sum_rows_cpu() allocates.
at::Tensor sum_rows_meta(const at::Tensor& rows) {
  if (rows.scalar_type() != at::kBFloat16) return rows.sum(0);
  return zero_sums(rows).to(at::kBFloat16);
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def("sum_rows(Tensor rows) -> Tensor");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("sum_rows", sum_rows_cpu);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("sum_rows", sum_rows_any);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("sum_rows", sum_rows_meta);
}

}  // namespace

at::Tensor sum_rows(const at::Tensor& rows) {
  COLOSSAL_CHECK(rows.dim() == 2, "rows of {}", shape_text(rows));
  static const auto op = find_operator<decltype(sum_rows_cpu)>("colossal::sum_rows");
  return op.call(rows.stride(1) == 1 ? rows : rows.contiguous());
}

}  // namespace colossal::ops
