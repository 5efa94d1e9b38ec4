#include "colossal/comm/nccl_backend.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/comm/current_stream.h"
#include "colossal/comm/nccl_library.h"
#include "colossal/comm/sum.h"

namespace colossal::comm {
namespace {

using nccl::Communicator;
using nccl::Result;

bool even(Counts counts) {
  return std::all_of(counts.begin(), counts.end(), [&](int64_t c) { return c == counts[0]; });
}

nccl::Type type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return nccl::Type::float32;
    case at::kDouble:
      return nccl::Type::float64;
    case at::kBFloat16:
      return nccl::Type::bfloat16;
    case at::kHalf:
      return nccl::Type::float16;
    case at::kLong:
      return nccl::Type::int64;
    default:
      COLOSSAL_CHECK(false, "NCCL sums no {}", c10::toString(tensor.scalar_type()));
  }
}

// What is only moved is moved as bytes.
struct Part {
  std::byte* begin = nullptr;
  size_t bytes = 0;
};

std::vector<Part> parts_of(const at::Tensor& full, Counts counts) {
  std::vector<Part> parts;
  const std::vector<int64_t> offsets = offsets_of(counts);
  const auto element = static_cast<int64_t>(full.element_size());
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    parts.push_back(
        {memory_of(full) + offsets[rank] * element, static_cast<size_t>(counts[rank] * element)});
  }
  return parts;
}

// Calls `functions` one after the other until one does not succeed.
class Sequence {
 public:
  template <typename Function>
  void then(const Function& function) {
    if (result_ == Result::success || result_ == Result::in_progress) result_ = function();
  }
  Result result() const { return result_; }

 private:
  Result result_ = Result::success;
};

NcclCall::Channel message_channel(int from, int to, int peer, const char* late) {
  return {.name = fmt::format("{}>{}", from, to), .peer = peer, .late = late};
}

}  // namespace

NcclBackend::NcclBackend(Membership membership, std::shared_ptr<Ledger> ledger,
                         std::chrono::milliseconds timeout, std::string name, at::Device device,
                         const nccl::UniqueId& id, std::shared_ptr<NcclWatch> watch)
    : Backend(std::move(membership), std::move(ledger), timeout),
      name_(std::move(name)),
      device_(device),
      watch_(std::move(watch)),
      stream_(c10::impl::VirtualGuardImpl(device.type())
                  .getStreamFromGlobalPool(device, /*isHighPriority=*/true)),
      handle_(c10::impl::VirtualGuardImpl(device.type()).getStreamNativeHandle(stream_)),
      communicator_(id, rank(), size(), timeout) {
  watch_->add(*this);
}

NcclBackend::~NcclBackend() {
  constexpr std::chrono::milliseconds kPause{1};
  while (first_in_flight()) std::this_thread::sleep_for(kPause);  // the watch ends late ones
  watch_->remove(*this);
}

void NcclBackend::connect() {
  barrier({});
  if (size() != 2) return;
  const at::Tensor bytes = at::zeros({2}, at::TensorOptions(at::kByte).device(device_));
  std::vector<int64_t> to(2), from(2);
  to[1 - rank()] = from[1 - rank()] = 1;
  launch({}, {bytes}, {},
         [&] { exchange(bytes.narrow(0, 0, 1), to, bytes.narrow(0, 1, 1), from); });
}

void NcclBackend::launch(const Call& call, std::vector<at::Tensor> tensors,
                         NcclCall::Channel channel, const std::function<void()>& put) {
  const int64_t number = launched_ + 1;
  if (const std::string reason = failure_->reason_of(number); !reason.empty()) {
    throw CallFailure(reason);
  }
  forget_ended_calls();
  {
    const std::lock_guard lock(mutex_);
    channel.number = progress_[channel.name].launched + 1;
  }
  const auto made = std::make_shared<NcclCall>(membership(), call, number, std::move(channel),
                                               std::move(tensors), failure_);
  c10::Event ready(device_.type());
  ready.record(current_stream(device_));
  ready.block(stream_);
  const c10::StreamGuard on_stream(stream_);
  // Calls write to parameters that require gradients, and to tensors of inference mode.
  const at::AutoDispatchBelowADInplaceOrView without_autograd;
  made->begin(stream_);
  const auto end = [&] {
    made->end(stream_);
    last_ = made;
    const std::lock_guard lock(mutex_);
    launched_ = number;
    in_flight_.push_back({made, std::nullopt});
    progress_[made->channel().name].launched = made->channel().number;
  };
  try {
    put();
  } catch (const CallFailure&) {
    end();  // a part of it may be in the stream, and uses the tensors
    // The communicator may have been aborted meanwhile, for a reason that says more.
    const std::string reason = failure_->reason_of(number);
    if (reason.empty()) throw;
    throw CallFailure(reason);
  }
  end();
}

void NcclBackend::enqueue(const Calls& calls) {
  communicator_.launch(calls, new_deadline());
}

void NcclBackend::all_reduce(const Call& call, const at::Tensor& tensor) {
  launch(call, {tensor}, {}, [&] {
    enqueue([&](Communicator communicator) {
      return nccl_functions().all_reduce(memory_of(tensor), memory_of(tensor), tensor.numel(),
                                         type_of(tensor), nccl::Reduction::sum, communicator,
                                         handle_);
    });
  });
  book_wire(call, law::all_reduce(tensor.numel(), size(), rank(), tensor.element_size()));
}

void NcclBackend::reduce_scatter(const Call& call, const at::Tensor& full, const at::Tensor& part,
                                 Counts counts) {
  if (!even(counts) || full.scalar_type() != part.scalar_type()) {
    const at::Tensor received = at::empty({size() * counts[rank()]}, full.options());
    launch(call, {full, received, part}, {}, [&] { sum_received(full, received, part, counts); });
  } else {
    launch(call, {full, part}, {}, [&] {
      enqueue([&](Communicator communicator) {
        return nccl_functions().reduce_scatter(memory_of(full), memory_of(part), part.numel(),
                                               type_of(full), nccl::Reduction::sum, communicator,
                                               handle_);
      });
    });
  }
  book_wire(call, law::reduce_scatter(counts, rank(), full.element_size()));
}

void NcclBackend::all_gather(const Call& call, const at::Tensor& full, Counts counts) {
  const std::vector<Part> parts = parts_of(full, counts);
  launch(call, {full}, {}, [&] {
    enqueue([&](Communicator communicator) {
      if (even(counts)) {
        return nccl_functions().all_gather(parts[rank()].begin, memory_of(full),
                                           parts[rank()].bytes, nccl::Type::uint8, communicator,
                                           handle_);
      }
      Sequence broadcasts;
      for (int root = 0; root < size(); ++root) {
        const auto [begin, bytes] = parts[root];
        if (bytes == 0) continue;
        broadcasts.then([&, begin = begin, bytes = bytes] {
          return nccl_functions().broadcast(begin, begin, bytes, nccl::Type::uint8, root,
                                            communicator, handle_);
        });
      }
      return broadcasts.result();
    });
  });
  book_wire(call, law::all_gather(counts, rank(), full.element_size()));
}

void NcclBackend::all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                             const at::Tensor& receive, Counts receive_counts) {
  launch(call, {send, receive}, {}, [&] { exchange(send, send_counts, receive, receive_counts); });
  book_wire(call, law::all_to_all(send_counts, rank(), send.element_size()));
}

void NcclBackend::rotate(const Call& call, const at::Tensor& send, const at::Tensor& receive) {
  std::vector<int64_t> send_counts(size()), receive_counts(size());
  send_counts[(rank() + 1) % size()] = send.numel();
  receive_counts[(rank() + size() - 1) % size()] = receive.numel();
  launch(call, {send, receive}, {}, [&] { exchange(send, send_counts, receive, receive_counts); });
  book_wire(call, static_cast<int64_t>(send.nbytes()));
}

void NcclBackend::broadcast(const Call& call, const at::Tensor& tensor, int root) {
  launch(call, {tensor}, {}, [&] {
    enqueue([&](Communicator communicator) {
      return nccl_functions().broadcast(memory_of(tensor), memory_of(tensor), tensor.nbytes(),
                                        nccl::Type::uint8, root, communicator, handle_);
    });
  });
  book_wire(call, law::broadcast(tensor.numel(), size(), rank(), root, tensor.element_size()));
}

void NcclBackend::send(const Call& call, const at::Tensor& tensor, int to) {
  launch(call, {tensor}, message_channel(rank(), to, to, "did not receive"), [&] {
    enqueue([&](Communicator communicator) {
      return nccl_functions().send(memory_of(tensor), tensor.nbytes(), nccl::Type::uint8, to,
                                   communicator, handle_);
    });
  });
  book_wire(call, call.bytes);
}

void NcclBackend::receive(const Call& call, const at::Tensor& tensor, int from) {
  launch(call, {tensor}, message_channel(from, rank(), from, "did not send"), [&] {
    enqueue([&](Communicator communicator) {
      return nccl_functions().receive(memory_of(tensor), tensor.nbytes(), nccl::Type::uint8, from,
                                      communicator, handle_);
    });
  });
}

// The host waits, too: what it does afterwards, such as reading files of other ranks, is after the
// other ranks' calls.
void NcclBackend::barrier(const Call& call) {
  constexpr std::chrono::microseconds kPause{50};
  const at::Tensor token = at::zeros({1}, at::TensorOptions(at::kFloat).device(device_));
  launch(call, {token}, {}, [&] {
    enqueue([&](Communicator communicator) {
      return nccl_functions().all_reduce(memory_of(token), memory_of(token), 1, type_of(token),
                                         nccl::Reduction::sum, communicator, handle_);
    });
  });
  const auto waited_for = last_;
  while (!waited_for->done()) std::this_thread::sleep_for(kPause);
  look_for_errors();
  if (const std::string reason = failure_->reason_of(waited_for->number()); !reason.empty()) {
    throw CallFailure(reason);
  }
}

// Between a rank and itself, the stream copies.
void NcclBackend::exchange(const at::Tensor& send, Counts send_counts, const at::Tensor& receive,
                           Counts receive_counts) {
  const std::vector<Part> to = parts_of(send, send_counts);
  const std::vector<Part> from = parts_of(receive, receive_counts);
  enqueue([&](Communicator communicator) {
    Sequence messages;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      if (to[peer].bytes > 0) {
        messages.then([&] {
          return nccl_functions().send(to[peer].begin, to[peer].bytes, nccl::Type::uint8, peer,
                                       communicator, handle_);
        });
      }
      if (from[peer].bytes > 0) {
        messages.then([&] {
          return nccl_functions().receive(from[peer].begin, from[peer].bytes, nccl::Type::uint8,
                                          peer, communicator, handle_);
        });
      }
    }
    return messages.result();
  });
  const int64_t own = send_counts[rank()];
  if (own == 0) return;
  receive.view(-1)
      .narrow(0, offsets_of(receive_counts)[rank()], own)
      .copy_(send.view(-1).narrow(0, offsets_of(send_counts)[rank()], own));
}

// Sends each rank's part to it directly. Each rank sums the parts in rank order.
void NcclBackend::sum_received(const at::Tensor& full, const at::Tensor& received,
                               const at::Tensor& part, Counts counts) {
  const std::vector<int64_t> own(size(), counts[rank()]);
  exchange(full, counts, received, own);
  const at::ScalarType type = accumulation_type(full.scalar_type());
  const std::vector<at::Tensor> terms = received.chunk(size());
  if (part.numel() == 0) return;
  at::Tensor sum = terms[0].to(type, false, /*copy=*/true);
  for (int source = 1; source < size(); ++source) sum.add_(terms[source].to(type));
  part.copy_(sum.view_as(part));
}

void NcclBackend::forget_ended_calls() {
  const std::lock_guard lock(mutex_);
  while (!in_flight_.empty() && in_flight_.front().call->has_ended()) in_flight_.pop_front();
}

std::shared_ptr<NcclCall> NcclBackend::first_in_flight() {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      in_flight_, [](const InFlight& in_flight) { return !in_flight.call->has_ended(); });
  return found == in_flight_.end() ? nullptr : found->call;
}

void NcclBackend::close(const std::string& why) {
  fail(NcclFailure::kEarlierCall, why, why);
}

void NcclBackend::abort(const std::string& why) {
  if (record_abort(why)) watch_->end_rank(failure());
}

void NcclBackend::fail(int64_t call, const std::string& reason, const std::string& message) {
  if (failure_->record(call, reason, message)) watch_->end_rank(message);
}

bool NcclBackend::record_loss(int global_rank, const std::string& why) {
  const auto& ranks = membership().ranks;
  const auto found = std::ranges::find(ranks, global_rank);
  if (found == ranks.end()) return false;
  const int rank = static_cast<int>(found - ranks.begin());
  return record_for_all(fmt::format("lost {}: {}", name_rank(membership(), rank), why));
}

bool NcclBackend::record_abort(const std::string& why) {
  return record_for_all("was aborted: " + why);
}

bool NcclBackend::record_failure_elsewhere(const std::string& message) {
  return failure_->record(NcclFailure::kEarlierCall, message, message);
}

bool NcclBackend::record_for_all(const std::string& reason) {
  const auto first = first_in_flight();
  return failure_->record(
      NcclFailure::kAllCalls, reason,
      first ? first->message(reason)
            : fmt::format("{}: a call {}", describe_caller(membership()), reason));
}

void NcclBackend::look_for_errors() {
  const std::string error = communicator_.error();
  if (error.empty()) return;
  const std::string reason = "failed: NCCL: " + error;
  const auto first = first_in_flight();
  if (first) return fail(first->number(), reason, first->message(reason));
  fail(NcclFailure::kAllCalls, reason,
       fmt::format("{}: a call {}", describe_caller(membership()), reason));
}

void NcclBackend::look_at_calls() {
  std::shared_ptr<NcclCall> first;
  std::optional<Deadline> deadline;
  {
    const std::lock_guard lock(mutex_);
    for (InFlight& in_flight : in_flight_) {
      if (!in_flight.call->has_begun()) break;
      if (!in_flight.deadline) in_flight.deadline = new_deadline();
      const NcclCall::Channel& channel = in_flight.call->channel();
      NcclProgress& progress = progress_[channel.name];
      if (progress.begun < channel.number) {
        progress.begun = channel.number;
        progress.call = describe_fully(in_flight.call->call());
      }
      if (in_flight.call->has_ended()) continue;
      first = in_flight.call;
      deadline = in_flight.deadline;
      break;
    }
  }
  if (!first || !deadline->passed()) return;
  const std::string reason =
      deadline->failure(watch_->reason_of_wait(name_, membership(), *first)).what();
  fail(first->number(), reason, first->message(reason));
}

void NcclBackend::add_progress(std::map<std::string, NcclProgress>& progress) {
  const std::lock_guard lock(mutex_);
  for (const auto& [channel, come] : progress_) progress[name_ + " " + channel] = come;
}

}  // namespace colossal::comm
