#include "colossal/nn/held_runs.h"

#include <ATen/ops/cat.h>

namespace colossal::nn {

std::vector<Range> runs_here(const Parameter& parameter, size_t dim) {
  const auto& held = parameter.placement.held;
  return held.empty() ? std::vector<Range>{{0, parameter.shape[dim]}} : held[dim];
}

at::Tensor select_runs(const at::Tensor& whole, int64_t dim, const std::vector<Range>& runs) {
  std::vector<at::Tensor> parts{whole.narrow(dim, 0, 0)};
  for (const Range& run : runs) parts.push_back(whole.narrow(dim, run.begin, run.size()));
  return at::cat(parts, dim);
}

}  // namespace colossal::nn
