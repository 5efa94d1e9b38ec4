// Changes how a matrix is divided among the ranks of a group: by columns or by rows. Booked as
// Reason::expert; differentiable.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/parallel/collectives.h"

namespace colossal::parallel {

// rows, columns: how each dim is divided among the ranks of one group. Law: an all-to-all of x, in
// forward and in backward.

// [all rows, columns on this rank] -> [rows on this rank, all columns]
at::Tensor whole_rows(const at::Tensor& x, const Shares& rows, const Shares& columns);

// [rows on this rank, all columns] -> [all rows, columns on this rank]
at::Tensor whole_columns(const at::Tensor& x, const Shares& rows, const Shares& columns);

}  // namespace colossal::parallel
