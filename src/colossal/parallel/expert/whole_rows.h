// Turns rows whose columns are divided among ranks into whole rows that are divided among them, and
// back: an all-to-all, booked as Reason::expert. Gradients go the opposite way.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/parallel/collectives.h"

namespace colossal::parallel {

// Both over the ranks of one group. Law: an all-to-all of x.

// [all rows, columns here] -> [rows here, all columns]
at::Tensor whole_rows(const at::Tensor& x, const Shares& rows, const Shares& columns);

// [rows here, all columns] -> [all rows, columns here]
at::Tensor whole_columns(const at::Tensor& x, const Shares& rows, const Shares& columns);

}  // namespace colossal::parallel
