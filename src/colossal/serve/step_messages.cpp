#include "colossal/serve/step_messages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "colossal/comm/group.h"

namespace colossal::serve {
namespace {

// From the first rank along both axes.
void broadcast(const at::Tensor& numbers, const ParallelContext& ranks) {
  if (ranks.coordinate(Axis::tp) == 0) {
    comm::broadcast(numbers, 0, ranks.group(Axis::pp), comm::Reason::control);
  }
  comm::broadcast(numbers, 0, ranks.group(Axis::tp), comm::Reason::control);
}

}  // namespace

bool leads(const ParallelContext& ranks) {
  return ranks.coordinate(Axis::pp) == 0 && ranks.coordinate(Axis::tp) == 0;
}

void tell(const StepMessage& message, const ParallelContext& ranks) {
  const int64_t count = std::ssize(message.numbers);
  broadcast(at::tensor({static_cast<int64_t>(message.kind), count}, at::kLong).to(ranks.device()),
            ranks);
  if (count > 0) broadcast(at::tensor(message.numbers, at::kLong).to(ranks.device()), ranks);
}

StepMessage hear(const ParallelContext& ranks) {
  const auto numbers_of = [&](int64_t count) {
    const at::Tensor heard =
        at::empty({count}, at::TensorOptions(at::kLong).device(ranks.device()));
    broadcast(heard, ranks);
    const at::Tensor here = heard.cpu();
    const auto* numbers = here.const_data_ptr<int64_t>();
    return std::vector<int64_t>(numbers, numbers + count);
  };
  const std::vector<int64_t> head = numbers_of(2);
  StepMessage message{.kind = static_cast<StepMessage::Kind>(head[0])};
  if (head[1] > 0) message.numbers = numbers_of(head[1]);
  return message;
}

}  // namespace colossal::serve
