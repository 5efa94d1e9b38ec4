#include "colossal/plan/recorder.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/ops/dry_repeats.h"
#include "colossal/plan/operator_work.h"

namespace colossal::plan {
namespace {

thread_local Recorder* recorder_of_thread = nullptr;

constexpr auto kMode = c10::DispatchKey::TESTING_ONLY_GenericMode;

template <typename Visit>
void for_each_tensor(c10::ArrayRef<c10::IValue> values, const Visit& visit) {
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) visit(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
    }
  }
}

// Adds the shapes and bytes of tensors to the operator, and sets its type.
void add_tensors(c10::ArrayRef<c10::IValue> values, std::vector<Shape>& shapes, Operator& made) {
  for_each_tensor(values, [&](const at::Tensor& tensor) {
    shapes.push_back(tensor.sizes().vec());
    made.bytes += static_cast<int64_t>(tensor.nbytes());
    const bool is_better =
        at::isFloatingType(tensor.scalar_type()) && !at::isFloatingType(made.type);
    if (made.type == at::ScalarType::Undefined || is_better) made.type = tensor.scalar_type();
  });
}

// Returns whether the operator touches no elements: it returns a view, or only allocates.
bool moves_no_elements(const c10::FunctionSchema& schema) {
  if (schema.name().starts_with("aten::empty") || schema.name() == "aten::new_empty" ||
      schema.name() == "aten::detach") {
    return true;
  }
  return std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
    return result.alias_info() && !result.alias_info()->isWrite();
  });
}

// As LibTorch writes it, but without a stream, because there are hundreds of thousands of names.
std::string name_of(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// Returns whether autograd calls the operator to add a gradient to another one of the same tensor,
// which it holds: between nodes, on the CPU in place. On meta it allocates the sum, so that a dry
// run would hold a third tensor.
bool is_sum_in_place(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  if (op.operator_name().name != "aten::add" || op.operator_name().overload_name != "Tensor") {
    return false;
  }
  if (torch::autograd::get_current_graph_task_id() == -1 || torch::autograd::get_current_node()) {
    return false;
  }
  const at::Tensor &held = arguments[0].toTensor(), &added = arguments[1].toTensor();
  constexpr size_t kOwners = 2;  // autograd's buffer, and the stack of arguments
  return held.is_meta() && added.is_meta() && !c10::GradMode::is_enabled() &&
         held.sizes() == added.sizes() && held.is_non_overlapping_and_dense() &&
         held.use_count() <= kOwners && held.has_storage() && held.storage().use_count() == 1;
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
  add_tensors(arguments, made.inputs, made);
  made.work = work_of(made.name, arguments);
  made.memory_changes = recorder->memory().num_changes();
  made.times = ops::dry_repeats();
  if (is_sum_in_place(op, arguments)) {
    made.name = "aten::add_.Tensor";
    const at::Tensor sum = arguments[0].toTensor();
    torch::jit::drop(*stack, op.schema().arguments().size());
    torch::jit::push(*stack, sum);
  } else {
    op.callBoxed(stack);
  }
  add_tensors(torch::jit::last(*stack, op.schema().returns().size()), made.outputs, made);
  if (moves_no_elements(op.schema())) made.bytes = 0;
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
       .memory_changes = memory().num_changes(),
       .asynchronous = call.asynchronous});
}

std::function<void()> Recorder::when_waited_for() {
  return [this, collective = recording_.collectives.size() - 1] {
    // A call may be waited for after the recording.
    if (recorder_of_thread == this) {
      recording_.waits.push_back({collective, num_operators(), num_collectives()});
    }
  };
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
