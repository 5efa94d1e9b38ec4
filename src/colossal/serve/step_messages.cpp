#include "colossal/serve/step_messages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <optional>

#include "colossal/comm/group.h"

namespace colossal::serve {
namespace {

// Sends numbers to the next rank along pp, which passes them on, and to all ranks along tp. Does
// not wait for the next rank along pp to receive a `step`: it may still compute an earlier one.
void pass_on(const at::Tensor& numbers, StepMessage::Kind kind, const ParallelContext& ranks) {
  const comm::Group& pipeline = ranks.host_group(Axis::pp);
  if (ranks.coordinate(Axis::tp) == 0 && pipeline.rank() + 1 < pipeline.size()) {
    comm::Work sent =
        comm::send_async(numbers, pipeline.rank() + 1, pipeline, comm::Reason::control);
    if (kind != StepMessage::Kind::step) sent.wait();
  }
  comm::broadcast(numbers, 0, ranks.host_group(Axis::tp), comm::Reason::control);
}

}  // namespace

bool leads(const ParallelContext& ranks) {
  return ranks.coordinate(Axis::pp) == 0 && ranks.coordinate(Axis::tp) == 0;
}

void tell(const StepMessage& message, const ParallelContext& ranks) {
  const auto tell = [&](const std::vector<int64_t>& numbers) {
    pass_on(at::tensor(numbers, at::kLong), message.kind, ranks);
  };
  tell({static_cast<int64_t>(message.kind), std::ssize(message.numbers)});
  if (!message.numbers.empty()) tell(message.numbers);
}

StepMessage hear(const ParallelContext& ranks) {
  std::optional<StepMessage::Kind> kind;
  const auto numbers_of = [&](int64_t count) {
    const at::Tensor heard = at::empty({count}, at::kLong);
    const comm::Group& pipeline = ranks.host_group(Axis::pp);
    const bool is_told_by_tp = ranks.coordinate(Axis::tp) > 0;
    if (!is_told_by_tp && pipeline.rank() > 0) {
      comm::receive(heard, pipeline.rank() - 1, pipeline, comm::Reason::control);
    }
    if (is_told_by_tp) comm::broadcast(heard, 0, ranks.host_group(Axis::tp), comm::Reason::control);
    const auto* numbers = heard.const_data_ptr<int64_t>();
    if (!kind) kind = static_cast<StepMessage::Kind>(numbers[0]);
    if (!is_told_by_tp) pass_on(heard, *kind, ranks);
    return std::vector<int64_t>(numbers, numbers + count);
  };
  const std::vector<int64_t> head = numbers_of(2);
  StepMessage message{.kind = *kind};
  if (head[1] > 0) message.numbers = numbers_of(head[1]);
  return message;
}

}  // namespace colossal::serve
