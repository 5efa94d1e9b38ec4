// Selects this rank's part of a parameter from a whole tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Returns the indices of dim `dim` that this rank holds, as runs.
std::vector<Range> runs_here(const Parameter& parameter, size_t dim);

// Returns the indices `runs` of `whole` along `dim`, one run after the other; `runs` may be empty.
at::Tensor select_runs(const at::Tensor& whole, int64_t dim, const std::vector<Range>& runs);

}  // namespace colossal::nn
