// This rank's part of a parameter along one dim, and its selection from a whole tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Returns the indices of dim `dim` of the global tensor that this rank holds, as ascending runs.
std::vector<Range> runs_here(const Parameter& parameter, size_t dim);

// Returns a copy of the slices of `whole` whose indices along `dim` are in `runs`, one run after
// the other; `runs` may be empty.
at::Tensor select_runs(const at::Tensor& whole, int64_t dim, const std::vector<Range>& runs);

}  // namespace colossal::nn
