// The parts of parameters that a rank holds, of tensors that all of them follow from.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Returns the indices of a parameter's dim that have elements here, as runs.
std::vector<Range> runs_here(const Parameter& parameter, size_t dim);

// Returns those indices of `whole` along a dim, one run after the other; there may be none.
at::Tensor select_runs(const at::Tensor& whole, int64_t dim, const std::vector<Range>& runs);

}  // namespace colossal::nn
