// Finds the indices of a parameter's dim that this rank holds, and selects them from a whole
// tensor. Used to select this rank's shard from tensors that were read from files or computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Returns the indices of dim `dim` of the global tensor that this rank holds, as ascending,
// disjoint ranges.
std::vector<Range> runs_here(const Parameter& parameter, size_t dim);

// Returns a copy of the slices of `whole` at the indices `runs` of dim `dim`, concatenated in the
// order of `runs`. If `runs` is empty, the result has size 0 in this dim.
at::Tensor select_runs(const at::Tensor& whole, int64_t dim, const std::vector<Range>& runs);

}  // namespace colossal::nn
