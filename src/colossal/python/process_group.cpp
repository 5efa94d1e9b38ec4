#include "colossal/python/process_group.h"

#include <ATen/ATen.h>
#include <Python.h>

#include <numeric>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/comm/law.h"
#include "colossal/python/flat_tensors.h"
#include "colossal/python/gathering.h"
#include "colossal/python/reduction.h"

namespace colossal::python {
namespace {

using c10d::OpType;

// While this exists, the thread does without Python's lock, if it has it: another thread may need
// the lock for what this one waits for, such as a callback of a Future.
class WithoutPythonLock {
 public:
  WithoutPythonLock() {
    if (Py_IsInitialized() && PyGILState_Check()) state_ = PyEval_SaveThread();
  }
  ~WithoutPythonLock() {
    if (state_) PyEval_RestoreThread(state_);
  }
  WithoutPythonLock(const WithoutPythonLock&) = delete;
  WithoutPythonLock& operator=(const WithoutPythonLock&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

void scatter_reduction(const at::Tensor& input, const at::Tensor& output, ReduceOperation operation,
                       const comm::Group& group) {
  const at::Tensor part = flattened(output);
  reduce_scatter(flattened(input), part, std::vector(group.size(), part.numel()), operation, group);
  copy_back(part, output);
}

// Returns the elements for each rank of a tensor that is divided by rows. rows: for each rank;
// empty: as many for all.
std::vector<int64_t> counts_by_rows(const at::Tensor& tensor, std::vector<int64_t> rows,
                                    int ranks) {
  if (tensor.dim() == 0) throw ConfigError("a tensor without dimensions has no rows to send");
  if (rows.empty()) {
    if (tensor.size(0) % ranks != 0) {
      throw ConfigError(
          fmt::format("{} rows for {} ranks: not the same number for all; pass the "
                      "split sizes",
                      tensor.size(0), ranks));
    }
    rows.assign(ranks, tensor.size(0) / ranks);
  }
  check_count("split sizes", std::ssize(rows), ranks);
  check_count("rows in the split sizes", comm::total(rows), tensor.size(0));
  const int64_t elements = c10::multiply_integers(tensor.sizes().slice(1));
  for (int64_t& row : rows) row *= elements;
  return rows;
}

}  // namespace

ProcessGroup::ProcessGroup(GroupMembers members)
    : Backend(members.place, static_cast<int>(members.ranks.size())),
      members_(std::move(members)),
      options_(c10::make_intrusive<Options>("colossal", members_.timeout)) {
  options_->group_name = members_.name;
  for (int rank : members_.ranks) options_->global_ranks_in_group.push_back(rank);
  translate_errors("init_process_group", [&] { meet(members_); });
  std::vector<int> everyone(size_);
  std::iota(everyone.begin(), everyone.end(), 0);
  collective_ = std::make_shared<GroupCalls>([this, everyone](const std::atomic<bool>& abandoned) {
    return connect(members_, "collectives", everyone, abandoned);
  });
  translate_errors("init_process_group", [&] { collective_->connect_now(); });
}

ProcessGroup::~ProcessGroup() {
  leave();
}

void ProcessGroup::leave() {
  const WithoutPythonLock unlocked;
  std::shared_ptr<GroupCalls> collective;
  decltype(messages_) messages;
  {
    const std::lock_guard lock(mutex_);
    collective = std::move(collective_);
    messages = std::move(messages_);
    messages_.clear();
  }
}

void ProcessGroup::shutdown() {
  leave();
}

void ProcessGroup::abort() {
  abort_if([](const GroupCalls&) { return true; });
}

void ProcessGroup::end() {
  abort_if([](const GroupCalls& calls) { return calls.has_pending(); });
  leave();
}

void ProcessGroup::abort_if(bool (*choose)(const GroupCalls& calls)) {
  const std::lock_guard lock(mutex_);
  const std::string why =
      fmt::format("rank {} has aborted {}", members_.ranks[members_.place], members_.name);
  if (collective_ && choose(*collective_)) collective_->abort(why);
  for (auto& [key, calls] : messages_) {
    if (choose(*calls)) calls->abort(why);
  }
}

ProcessGroup::WorkPointer ProcessGroup::issue(GroupCalls::Call call, GroupCalls::Body body) {
  ++collectives_;
  std::shared_ptr<GroupCalls> calls;
  translate_errors(call.function, [&] {
    const std::lock_guard lock(mutex_);
    calls = collective_;
    if (!calls) throw CommError(fmt::format("{} is destroyed", members_.name));
  });
  return calls->issue(std::move(call), std::move(body));
}

ProcessGroup::WorkPointer ProcessGroup::broadcast(Tensors& tensors,
                                                  const c10d::BroadcastOptions& options) {
  translate_errors("broadcast", [&] { only_one(tensors); });
  const int root = static_cast<int>(options.rootRank);
  return issue({OpType::BROADCAST, "broadcast", tensors, options.asyncOp},
               [tensor = tensors[0], root](const comm::Group& group) {
                 const at::Tensor flat = flattened(tensor);
                 python::broadcast(flat, root, group);
                 copy_back(flat, tensor);
               });
}

ProcessGroup::WorkPointer ProcessGroup::allreduce(Tensors& tensors,
                                                  const c10d::AllreduceOptions& options) {
  translate_errors("all_reduce", [&] {
    only_one(tensors);
    check_reduction(options.reduceOp, tensors[0].scalar_type());
  });
  return issue({OpType::ALLREDUCE, "all_reduce", tensors, options.asyncOp},
               [tensor = tensors[0], operation = options.reduceOp.op_](const comm::Group& group) {
                 const at::Tensor flat = flattened(tensor);
                 all_reduce(flat, operation, group);
                 copy_back(flat, tensor);
               });
}

ProcessGroup::WorkPointer ProcessGroup::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  translate_errors("all_reduce_coalesced", [&] {
    if (tensors.empty()) throw ConfigError("no tensors: pass one or more");
    check_reduction(options.reduceOp, tensors[0].scalar_type());
  });
  return issue({OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced", tensors, options.asyncOp},
               [tensors, operation = options.reduceOp.op_](const comm::Group& group) {
                 const at::Tensor flat = concatenated(tensors);
                 all_reduce(flat, operation, group);
                 divide_among(flat, tensors);
               });
}

ProcessGroup::WorkPointer ProcessGroup::reduce(Tensors& tensors,
                                               const c10d::ReduceOptions& options) {
  translate_errors("reduce", [&] {
    only_one(tensors);
    check_reduction(options.reduceOp, tensors[0].scalar_type());
  });
  const int root = static_cast<int>(options.rootRank);
  return issue(
      {OpType::REDUCE, "reduce", tensors, options.asyncOp},
      [tensor = tensors[0], root, operation = options.reduceOp.op_](const comm::Group& group) {
        const at::Tensor flat = flattened(tensor);
        python::reduce(flat, root, operation, group);
        copy_back(flat, tensor);
      });
}

ProcessGroup::WorkPointer ProcessGroup::allgather(TensorLists& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& options) {
  translate_errors("all_gather", [&] {
    only_one(inputs);
    check_count("output lists", std::ssize(outputs), 1);
    check_count("output tensors", std::ssize(outputs[0]), size_);
    check_count("elements of this rank's output", outputs[0][rank_].numel(), inputs[0].numel());
  });
  return issue({OpType::ALLGATHER, "all_gather", outputs[0], options.asyncOp},
               [outputs = outputs[0], input = inputs[0]](const comm::Group& group) {
                 python::all_gather(outputs, input, group);
               });
}

ProcessGroup::WorkPointer ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                        const c10d::AllgatherOptions& options) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

ProcessGroup::WorkPointer ProcessGroup::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  translate_errors("all_gather_single", [&] {
    check_count("output tensors", std::ssize(outputs), std::ssize(inputs));
    for (size_t i = 0; i < inputs.size(); ++i) {
      check_same_type(inputs[i], outputs[i]);
      check_count("output elements", outputs[i].numel(), size_ * inputs[i].numel());
    }
  });
  return issue({OpType::_ALLGATHER_BASE, "all_gather_single", outputs, options.asyncOp},
               [outputs, inputs](const comm::Group& group) {
                 for (size_t i = 0; i < inputs.size(); ++i) {
                   python::all_gather(outputs[i], inputs[i], group);
                 }
               });
}

ProcessGroup::WorkPointer ProcessGroup::gather(TensorLists& outputs, Tensors& inputs,
                                               const c10d::GatherOptions& options) {
  const int root = static_cast<int>(options.rootRank);
  const bool receives = rank_ == root;
  translate_errors("gather", [&] {
    only_one(inputs);
    check_count("output lists", std::ssize(outputs), receives ? 1 : 0);
    if (!receives) return;
    check_count("output tensors", std::ssize(outputs[0]), size_);
    check_count("elements of this rank's output", outputs[0][rank_].numel(), inputs[0].numel());
  });
  const Tensors results = receives ? outputs[0] : Tensors{};
  return issue({OpType::GATHER, "gather", results, options.asyncOp},
               [results, root, input = inputs[0]](const comm::Group& group) {
                 python::gather(results, input, root, group);
               });
}

ProcessGroup::WorkPointer ProcessGroup::scatter(Tensors& outputs, TensorLists& inputs,
                                                const c10d::ScatterOptions& options) {
  const int root = static_cast<int>(options.rootRank);
  const bool sends = rank_ == root;
  translate_errors("scatter", [&] {
    only_one(outputs);
    check_count("input lists", std::ssize(inputs), sends ? 1 : 0);
    if (!sends) return;
    check_count("input tensors", std::ssize(inputs[0]), size_);
    check_count("elements of this rank's input", inputs[0][rank_].numel(), outputs[0].numel());
  });
  return issue({OpType::SCATTER, "scatter", outputs, options.asyncOp},
               [output = outputs[0], root, inputs = sends ? inputs[0] : Tensors{}](
                   const comm::Group& group) { python::scatter(output, inputs, root, group); });
}

ProcessGroup::WorkPointer ProcessGroup::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                       const c10d::ReduceScatterOptions& options) {
  translate_errors("reduce_scatter", [&] {
    only_one(outputs);
    check_count("input lists", std::ssize(inputs), 1);
    check_count("input tensors", std::ssize(inputs[0]), size_);
    check_reduction(options.reduceOp, outputs[0].scalar_type());
    check_count("elements of this rank's input", inputs[0][rank_].numel(), outputs[0].numel());
  });
  return issue({OpType::REDUCE_SCATTER, "reduce_scatter", outputs, options.asyncOp},
               [output = outputs[0], inputs = inputs[0],
                operation = options.reduceOp.op_](const comm::Group& group) {
                 const at::Tensor part = flattened(output);
                 python::reduce_scatter(concatenated(inputs), part, counts_of(inputs), operation,
                                        group);
                 copy_back(part, output);
               });
}

ProcessGroup::WorkPointer ProcessGroup::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

ProcessGroup::WorkPointer ProcessGroup::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  translate_errors("reduce_scatter_single", [&] {
    check_count("output tensors", std::ssize(outputs), std::ssize(inputs));
    for (size_t i = 0; i < inputs.size(); ++i) {
      check_same_type(inputs[i], outputs[i]);
      check_reduction(options.reduceOp, inputs[i].scalar_type());
      check_count("input elements", inputs[i].numel(), size_ * outputs[i].numel());
    }
  });
  return issue({OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_single", outputs, options.asyncOp},
               [outputs, inputs, operation = options.reduceOp.op_](const comm::Group& group) {
                 for (size_t i = 0; i < inputs.size(); ++i) {
                   scatter_reduction(inputs[i], outputs[i], operation, group);
                 }
               });
}

ProcessGroup::WorkPointer ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                      std::vector<int64_t>& output_rows,
                                                      std::vector<int64_t>& input_rows,
                                                      const c10d::AllToAllOptions& options) {
  std::vector<int64_t> sent, received;
  translate_errors("all_to_all_single", [&] {
    sent = counts_by_rows(input, input_rows, size_);
    received = counts_by_rows(output, output_rows, size_);
    check_count("elements of this rank's output", received[rank_], sent[rank_]);
  });
  return issue({OpType::ALLTOALL_BASE, "all_to_all_single", {output}, options.asyncOp},
               [output, input, sent, received](const comm::Group& group) {
                 const at::Tensor parts = flattened(output);
                 comm::all_to_all(flattened(input), sent, parts, received, group, kReason);
                 copy_back(parts, output);
               });
}

ProcessGroup::WorkPointer ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllToAllOptions& options) {
  translate_errors("all_to_all", [&] {
    check_count("output tensors", std::ssize(outputs), size_);
    check_count("input tensors", std::ssize(inputs), size_);
    check_count("elements of this rank's output", outputs[rank_].numel(), inputs[rank_].numel());
  });
  return issue({OpType::ALLTOALL, "all_to_all", outputs, options.asyncOp},
               [outputs, inputs](const comm::Group& group) {
                 const std::vector<int64_t> received = counts_of(outputs);
                 const at::Tensor parts = at::empty({comm::total(received)}, outputs[0].options());
                 comm::all_to_all(concatenated(inputs), counts_of(inputs), parts, received, group,
                                  kReason);
                 divide_among(parts, outputs);
               });
}

std::shared_ptr<GroupCalls> ProcessGroup::messages(int from, int to, int tag) {
  const std::lock_guard lock(mutex_);
  if (!collective_) throw CommError(fmt::format("{} is destroyed", members_.name));
  std::shared_ptr<GroupCalls>& calls = messages_[{from, to, tag}];
  if (!calls) {
    const std::string key = fmt::format("messages/{}/{}/{}", from, to, tag);
    calls = std::make_shared<GroupCalls>([this, key, from, to](const std::atomic<bool>& abandoned) {
      return connect(members_, key, {from, to}, abandoned);
    });
  }
  return calls;
}

ProcessGroup::WorkPointer ProcessGroup::send(Tensors& tensors, int to, int tag) {
  std::shared_ptr<GroupCalls> calls;
  translate_errors("send", [&] {
    only_one(tensors);
    calls = messages(rank_, to, tag);
  });
  return calls->issue({OpType::SEND, "send", tensors},
                      [tensor = tensors[0]](const comm::Group& group) {
                        comm::send(flattened(tensor), /*to=*/1, group, kReason);
                      });
}

ProcessGroup::WorkPointer ProcessGroup::recv(Tensors& tensors, int from, int tag) {
  std::shared_ptr<GroupCalls> calls;
  translate_errors("recv", [&] {
    only_one(tensors);
    calls = messages(from, rank_, tag);
  });
  return calls->issue({OpType::RECV, "recv", tensors},
                      [tensor = tensors[0]](const comm::Group& group) {
                        const at::Tensor flat = flattened(tensor);
                        comm::receive(flat, /*from=*/0, group, kReason);
                        copy_back(flat, tensor);
                      });
}

ProcessGroup::WorkPointer ProcessGroup::recvAnysource(Tensors& /*tensors*/, int /*tag*/) {
  C10_THROW_ERROR(ValueError,
                  "recv: the backend \"colossal\" receives from a rank that is named: pass src=");
}

ProcessGroup::WorkPointer ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  return issue({OpType::BARRIER, "barrier", {}, options.asyncOp},
               [](const comm::Group& group) { comm::barrier(group); });
}

}  // namespace colossal::python
