#include "colossal/engine/control.h"

#include <ATen/ops/tensor.h>

namespace colossal {

bool is_maximum(const std::string& metric) {
  return metric.ends_with("/max");
}

ControlMessage reduce_control(const ControlMessage& mine, const comm::Group& group) {
  std::vector<double> numbers{mine.loss_sum,     mine.token_count, mine.input_count,
                              mine.squared_norm, mine.non_finite,  mine.stop_requested};
  const auto fields = std::ssize(numbers);
  for (const auto* part : {&mine.used, &mine.metrics, &mine.maxima, &mine.routers}) {
    numbers.insert(numbers.end(), part->begin(), part->end());
  }
  const at::Tensor sum = at::tensor(numbers, at::kDouble).to(group.device());
  comm::all_reduce(sum, group, comm::Reason::control);
  const at::Tensor message = sum.cpu();
  const double* data = message.const_data_ptr<double>();
  ControlMessage all{.loss_sum = data[0],
                     .token_count = data[1],
                     .input_count = data[2],
                     .squared_norm = data[3],
                     .non_finite = data[4],
                     .stop_requested = data[5]};
  const double* next = data + fields;
  const auto take = [&](size_t count) {
    next += count;
    return std::vector<double>(next - count, next);
  };
  all.used = take(mine.used.size());
  all.metrics = take(mine.metrics.size());
  all.maxima = take(mine.maxima.size());
  all.routers = take(mine.routers.size());
  return all;
}

}  // namespace colossal
