#include "colossal/layout/initial_values.h"

#include "colossal/ops/random.h"

namespace colossal {

void fill_initial_values(const at::Tensor& values, const nn::Parameter& parameter, int64_t begin,
                         uint64_t seed) {
  if (parameter.initializer.kind == nn::Initializer::Kind::constant) {
    values.fill_(parameter.initializer.value);
    return;
  }
  const RandomKey stream = ops::parameter_stream(seed, parameter.name);
  parameter.for_each_run({begin, begin + values.numel()}, [&](const nn::Parameter::Run& run) {
    ops::fill_normal(values.narrow(0, run.local_begin - begin, run.count), run.begin, stream,
                     parameter.initializer.value, parameter.initializer.spread);
  });
}

}  // namespace colossal
