// Helpers of the norm operators: access to rows, and sums for parameter gradients that are
// bit-identical for any number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>

#include "colossal/ops/kernels/vector_kernels.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::ops {

// Rows per group. One thread processes the rows of a group, in their order; it adds their terms of
// the parameter gradients to sums that belong to the group.
inline constexpr int64_t kRowsPerGroup = 64;

int64_t num_groups_of(int64_t rows);

// Return the tensor as contiguous, or in fp64; an undefined tensor if none is given.
at::Tensor contiguous_or_undefined(const std::optional<at::Tensor>& given);
at::Tensor double_or_undefined(const std::optional<at::Tensor>& given);

// Pointers to the rows of a contiguous tensor [.., row length]; null if the tensor is undefined.
template <typename Byte>
struct RowsAt {
  Byte* data;
  int64_t row_bytes;
  auto* operator[](int64_t row) const { return data ? data + row * row_bytes : nullptr; }
};
RowsAt<const char> rows_of(const at::Tensor& x);
RowsAt<char> rows_to_write(const at::Tensor& x);

// Calls visit(row, index of the row's group) for all rows, with different groups on several
// threads.
template <typename Visit>
void visit_rows_in_groups(int64_t rows, const Visit& visit) {
  parallel_for(0, num_groups_of(rows), 1, [&](int64_t begin, int64_t end) {
    const int64_t last = std::min(rows, end * kRowsPerGroup);
    for (int64_t row = begin * kRowsPerGroup; row < last; ++row) visit(row, row / kRowsPerGroup);
  });
}

// Returns zeros [groups, features], in the compute type of x. Row i is for group i: its rows' terms
// of a parameter's gradient are added there. rows: number of rows of all groups; features: number
// of elements of the parameter.
at::Tensor gradient_parts(const at::Tensor& x, int64_t rows, int64_t features);
// Returns the sum of `parts` over groups, in their order: [features], in `type`. Overwrites
// `parts`.
at::Tensor sum_of_parts(const at::Tensor& parts, at::ScalarType type);

}  // namespace colossal::ops
