// Helpers for the sources of the norm operators: access to rows, and sums over rows for the
// gradients of weight and bias. These sums are bit-identical for any number of threads: rows form
// groups of a fixed size, each group has its own sums, and the groups are added in order.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>

#include "colossal/ops/kernels/vector_kernels.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::ops {

// Rows per group; the last group may have fewer. One thread processes the rows of a group, in
// their order.
inline constexpr int64_t kRowsPerGroup = 64;

// Returns the number of groups that `rows` rows form.
int64_t num_groups_of(int64_t rows);

// contiguous_or_undefined() returns `given` made contiguous, and double_or_undefined() returns it
// converted to fp64. Both return an undefined tensor if `given` is nullopt or undefined.
at::Tensor contiguous_or_undefined(const std::optional<at::Tensor>& given);
at::Tensor double_or_undefined(const std::optional<at::Tensor>& given);

// Gives pointers to the rows of a contiguous tensor [.., row length]. All pointers are null if the
// tensor is undefined. The tensor must outlive the object.
template <typename Byte>
struct RowsAt {
  Byte* data;
  int64_t row_bytes;
  auto* operator[](int64_t row) const { return data ? data + row * row_bytes : nullptr; }
};
// Return the rows of x, which must be contiguous or undefined.
RowsAt<const char> rows_of(const at::Tensor& x);
RowsAt<char> rows_to_write(const at::Tensor& x);

// Calls visit(row, group) for each row in [0, rows), where `group` is the index of the row's group.
// Several threads process different groups at the same time.
template <typename Visit>
void visit_rows_in_groups(int64_t rows, const Visit& visit) {
  parallel_for(0, num_groups_of(rows), 1, [&](int64_t begin, int64_t end) {
    const int64_t last = std::min(rows, end * kRowsPerGroup);
    for (int64_t row = begin * kRowsPerGroup; row < last; ++row) visit(row, row / kRowsPerGroup);
  });
}

// Returns zeros [groups, features] in the compute type of x (fp64 for fp64, otherwise fp32). The
// caller adds the gradient terms of the rows of group i to row i. rows: number of rows in all
// groups; features: number of elements of the weight or bias. If `rows` is 0, the result
// has one group, so that its sum is zeros.
at::Tensor gradient_parts(const at::Tensor& x, int64_t rows, int64_t features);
// Returns the sum of `parts` [groups, features] over the groups, in ascending order: [features], in
// `type`. Overwrites `parts`.
at::Tensor sum_of_parts(const at::Tensor& parts, at::ScalarType type);

}  // namespace colossal::ops
