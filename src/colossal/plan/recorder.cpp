#include "colossal/plan/recorder.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <utility>

#include "colossal/base/error.h"
#include "colossal/plan/flops.h"

namespace colossal::plan {
namespace {

thread_local Recorder* recorder_of_thread = nullptr;

constexpr auto kMode = c10::DispatchKey::TESTING_ONLY_GenericMode;

void add_shapes(const c10::IValue& value, std::vector<Shape>& shapes) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) shapes.push_back(value.toTensor().sizes().vec());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) shapes.push_back(tensor.sizes().vec());
  }
}

std::vector<Shape> shapes_of(c10::ArrayRef<c10::IValue> values) {
  std::vector<Shape> shapes;
  for (const c10::IValue& value : values) add_shapes(value, shapes);
  return shapes;
}

// As LibTorch writes it, but without a stream, because there are hundreds of thousands of names.
std::string name_of(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// Every operator on a thread with a recorder calls this first. Operators that it calls in turn do
// not: they are part of it.
void record_operator(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard inside(kMode);
  Recorder* const recorder = Recorder::of_this_thread();
  if (!recorder) return op.callBoxed(stack);
  Operator made;
  const c10::ArrayRef<c10::IValue> arguments =
      torch::jit::last(*stack, op.schema().arguments().size());
  made.name = name_of(op.operator_name());
  made.inputs = shapes_of(arguments);
  made.flops = operator_flops(made.name, arguments);
  made.memory_changes = recorder->memory().num_changes();
  op.callBoxed(stack);
  made.outputs = shapes_of(torch::jit::last(*stack, op.schema().returns().size()));
  recorder->add(std::move(made));
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&record_operator>());
}

}  // namespace

Recorder::Recorder(comm::Ledger& ledger, at::DeviceType device)
    : memory_(ledger, device, this), operators_(kMode) {
  COLOSSAL_CHECK(!recorder_of_thread, "a second recorder in this thread: {} operators so far",
                 recorder_of_thread->num_operators());
  recorder_of_thread = this;
  memory().keep_timeline();
}

Recorder::~Recorder() {
  recorder_of_thread = nullptr;
}

Recorder* Recorder::of_this_thread() {
  return recorder_of_thread;
}

void Recorder::add(Operator made) {
  recording_.operators.push_back(std::move(made));
}

void Recorder::issued(const comm::IssuedCall& call) {
  const GroupLists& lists = lists_of(call.group);
  recording_.collectives.push_back(
      {.operation = call.operation,
       .reason = call.reason,
       .axis = call.group->axis,
       .ranks = lists.ranks,
       .partners = call.partners ? index_of(*call.partners) : lists.others,
       .law_bytes = call.law_bytes,
       .operators = num_operators(),
       .memory_changes = memory().num_changes()});
}

size_t Recorder::index_of(const std::vector<int>& ranks) {
  const auto [found, is_new] = rank_lists_.try_emplace(ranks, rank_lists_.size());
  if (is_new) recording_.rank_lists.push_back(ranks);
  return found->second;
}

const Recorder::GroupLists& Recorder::lists_of(
    const std::shared_ptr<const comm::Membership>& group) {
  const auto [found, is_new] = group_lists_.try_emplace(group);
  if (is_new) {
    std::vector<int> others = group->ranks;
    others.erase(others.begin() + group->rank);
    found->second = {index_of(group->ranks), index_of(others)};
  }
  return found->second;
}

Recording Recorder::take() {
  recording_.memory = memory().take_timeline();
  recording_.at_peak = memory().at_peak();
  return std::move(recording_);
}

}  // namespace colossal::plan
