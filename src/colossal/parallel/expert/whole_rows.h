// Changes the layout of a matrix over the ranks of a group from division by columns to division by
// rows, and back. Differentiable. The ledger counts the bytes under Reason::expert. Used to give a
// rank all features of some tokens before experts, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/parallel/collectives.h"

namespace colossal::parallel {

// In both functions, rows and columns say how each dim is divided among the ranks of one group,
// which must outlive the backward pass. All its ranks must call the function. Law: an all-to-all of
// x in the forward pass, and of the gradient in the backward pass.

// Returns [rows on this rank, all columns]. x: [all rows, columns on this rank].
at::Tensor whole_rows(const at::Tensor& x, const Shares& rows, const Shares& columns);

// Returns [all rows, columns on this rank]. x: [rows on this rank, all columns].
at::Tensor whole_columns(const at::Tensor& x, const Shares& rows, const Shares& columns);

}  // namespace colossal::parallel
