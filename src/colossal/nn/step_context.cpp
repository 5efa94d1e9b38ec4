#include "colossal/nn/step_context.h"

#include <numeric>

namespace colossal::nn {

StepContext make_step_context(int64_t batch, int64_t sequence, at::Device device, int64_t begin) {
  StepContext context;
  context.sample_ids.resize(batch);
  std::iota(context.sample_ids.begin(), context.sample_ids.end(), int64_t{0});
  context.grids = {make_token_grid(batch, sequence, device, begin)};
  return context;
}

StepContext StepContext::of_stack(size_t other) const {
  StepContext copy = *this;
  copy.stack = other;
  return copy;
}

StepContext StepContext::without_adapters() const {
  StepContext copy = *this;
  copy.adapted = false;
  return copy;
}

}  // namespace colossal::nn
