#include "colossal/engine/control.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <cstdint>

#include "colossal/ops/upload.h"

namespace colossal {
namespace {

// Calls visit(number) for each number of a message, in the order in which they travel.
template <typename Message, typename Visit>
void for_each_number(Message& message, const Visit& visit) {
  for (auto* number : {&message.loss_sum, &message.token_count, &message.input_count,
                       &message.squared_norm, &message.stop_requested}) {
    visit(*number);
  }
  for (auto* part : {&message.used, &message.metrics, &message.maxima, &message.routers}) {
    for (auto& number : *part) visit(number);
  }
}

// device: that of the group. A group of one rank has none: then the numbers stay where they are.
at::Tensor on_device(const ControlMessage& message, at::Device device) {
  std::vector<double> known;
  std::vector<int64_t> places;  // of the numbers that the device computes
  std::vector<at::Tensor> pending;
  for_each_number(message, [&](const ops::PendingSum& number) {
    if (number.pending().defined()) {
      places.push_back(std::ssize(known));
      pending.push_back(number.pending());
    }
    known.push_back(number.known());
  });
  if (!pending.empty()) device = pending.front().device();
  at::Tensor all = ops::upload(at::tensor(known, at::kDouble), device);
  if (!places.empty()) {
    all.index_add_(0, ops::upload(at::tensor(places, at::kLong), device), at::stack(pending));
  }
  return all;
}

}  // namespace

bool is_maximum(const std::string& metric) {
  return metric.ends_with("/max");
}

ControlSums reduce_control(const ControlMessage& mine, const comm::Group& group) {
  const at::Tensor sum = on_device(mine, group.device());
  comm::all_reduce(sum, group, comm::Reason::control);
  const at::Tensor message = comm::on_host_checked(sum, group);
  ControlSums all;
  all.used.resize(mine.used.size());
  all.metrics.resize(mine.metrics.size());
  all.maxima.resize(mine.maxima.size());
  all.routers.resize(mine.routers.size());
  const auto* next = message.const_data_ptr<double>();
  for_each_number(all, [&](double& number) { number = *next++; });
  return all;
}

}  // namespace colossal
