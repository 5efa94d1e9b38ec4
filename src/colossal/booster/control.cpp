#include "colossal/booster/control.h"

#include <ATen/ops/empty.h>

namespace colossal {

ControlMessage reduce_control(const ControlMessage& mine, const comm::Group& group) {
  constexpr int64_t kFields = 6;
  const auto parameters = static_cast<int64_t>(mine.used.size());
  const auto metrics = static_cast<int64_t>(mine.metrics.size());
  const auto routers = static_cast<int64_t>(mine.routers.size());
  at::Tensor message = at::empty({kFields + parameters + metrics + routers}, at::kDouble);
  double* data = message.mutable_data_ptr<double>();
  data[0] = mine.loss_sum;
  data[1] = mine.token_count;
  data[2] = mine.squared_norm;
  data[3] = mine.non_finite;
  data[4] = mine.stop_requested;
  data[5] = mine.input_count;
  std::copy(mine.used.begin(), mine.used.end(), data + kFields);
  std::copy(mine.metrics.begin(), mine.metrics.end(), data + kFields + parameters);
  std::copy(mine.routers.begin(), mine.routers.end(), data + kFields + parameters + metrics);
  const at::Tensor sum = message.to(group.device());
  comm::all_reduce(sum, group, comm::Reason::control);
  message = sum.cpu();
  data = message.mutable_data_ptr<double>();
  return {.loss_sum = data[0],
          .token_count = data[1],
          .input_count = data[5],
          .squared_norm = data[2],
          .non_finite = data[3],
          .stop_requested = data[4],
          .used = {data + kFields, data + kFields + parameters},
          .metrics = {data + kFields + parameters, data + kFields + parameters + metrics},
          .routers = {data + kFields + parameters + metrics,
                      data + kFields + parameters + metrics + routers}};
}

}  // namespace colossal
