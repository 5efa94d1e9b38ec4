#include "colossal/nn/step_context.h"

#include <ATen/ops/arange.h>

#include <numeric>

namespace colossal::nn {

StepContext make_step_context(int64_t batch, int64_t sequence, at::Device device, int64_t begin) {
  StepContext context;
  context.batch = batch;
  context.sequence = sequence;
  context.length = begin + sequence;
  context.sample_ids.resize(batch);
  std::iota(context.sample_ids.begin(), context.sample_ids.end(), int64_t{0});
  context.positions =
      at::arange(begin, begin + sequence, at::TensorOptions().dtype(at::kLong).device(device));
  return context;
}

StepContext StepContext::without_adapters() const {
  StepContext copy = *this;
  copy.adapted = false;
  if (source) copy.source = std::make_shared<const StepContext>(source->without_adapters());
  return copy;
}

}  // namespace colossal::nn
