#include "colossal/comm/group.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/comm/call_listener.h"
#include "colossal/comm/group_impl.h"
#include "colossal/comm/law.h"
#include "colossal/comm/store.h"
#include "colossal/comm/sum.h"
#include "colossal/comm/work_state.h"

namespace colossal::comm {
namespace {

int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<int64_t>(tensor.nbytes());
}

Call call_of(Operation operation, const at::Tensor& tensor, Reason reason) {
  return {.operation = operation,
          .reason = reason,
          .type = tensor.scalar_type(),
          .bytes = bytes_of(tensor)};
}

void check_tensor(const at::Tensor& tensor) {
  COLOSSAL_CHECK(tensor.defined() && tensor.is_contiguous(), "collectives take contiguous tensors");
}

void check_counts(const at::Tensor& full, Counts counts, const Group& group) {
  check_tensor(full);
  COLOSSAL_CHECK(std::ssize(counts) == group.size(), "{} counts for {} ranks", counts.size(),
                 group.size());
  COLOSSAL_CHECK(total(counts) == full.numel(), "counts sum to {}, the tensor has {} elements",
                 total(counts), full.numel());
}

void check_sum(const at::Tensor& from, const at::Tensor& into) {
  COLOSSAL_CHECK(can_sum(from.scalar_type(), into.scalar_type()), "no sum of {} into {}",
                 c10::toString(from.scalar_type()), c10::toString(into.scalar_type()));
}

void check_rank(int rank, const Group& group) {
  COLOSSAL_CHECK(0 <= rank && rank < group.size(), "rank {} of a group of {}", rank, group.size());
}

// Carries out a call. Every failure of a call passes here.
template <typename Body>
void carry_out(Group::Impl& impl, const Call& call, const Body& body) {
  at::RecordFunction in_profiles(at::RecordScope::USER_SCOPE);
  std::string name;
  if (in_profiles.isActive()) {
    name = describe(call);
    in_profiles.before(name.c_str());
  }
  const auto fail = [&](const std::string& reason) {
    const std::string what =
        fmt::format("{}: {} {}", describe_caller(impl.membership), describe(call), reason);
    impl.backend->close(what);
    throw CommError(what);
  };
  try {
    body(*impl.backend);
  } catch (const CallFailure& failure) {
    fail(failure.what());
  } catch (const c10::Error& error) {  // of a GPU
    fail("failed: " + reason_of(error));
  }
}

// What the ledger and a listener learn about a call in addition to the call itself: bytes by the
// law, buffers, and the ranks (within the group) that it exchanges with.
struct Facts {
  int64_t law_bytes = 0;
  std::vector<at::Tensor> buffers;
  std::function<std::vector<int>()> partners = {};  // none: all other ranks
};

void tell_listener(const Group& group, const Call& call, const Facts& facts, bool asynchronous) {
  CallListener* const listener = group.ledger().listener();
  if (!listener) return;
  const std::shared_ptr<const Membership> membership(group.impl().shared_from_this(),
                                                     &group.impl().membership);
  std::optional<std::vector<int>> partners;
  if (facts.partners) {
    partners = facts.partners();
    for (int& partner : *partners) partner = membership->ranks[partner];
  }
  listener->issued({call.operation, call.reason, membership, facts.law_bytes, std::move(partners),
                    facts.buffers, asynchronous});
}

void book(const Group& group, const Call& call, const Facts& facts, bool asynchronous) {
  group.ledger().book(group.axis(), call.reason, facts.law_bytes);
  tell_listener(group, call, facts, asynchronous);
}

// A call that has ended.
class EndedCall final : public Work::State {
 public:
  // error: null if it has succeeded. when_waited_for: called by the first wait(), or null.
  EndedCall(std::exception_ptr error, std::function<void()> when_waited_for)
      : error_(std::move(error)), when_waited_for_(std::move(when_waited_for)) {}

  void wait() override {
    if (error_) std::rethrow_exception(error_);
    if (const auto tell = std::exchange(when_waited_for_, nullptr)) tell();
  }
  bool done() override { return true; }

 private:
  std::exception_ptr error_;
  std::function<void()> when_waited_for_;
};

// Carries out a call of a backend that is ordered by streams.
template <typename Body>
Work launch(Group::Impl& impl, const Call& call, const Body& body) {
  try {
    carry_out(impl, call, body);
  } catch (const CommError&) {
    return Work(std::make_shared<EndedCall>(std::current_exception(), nullptr));
  }
  return impl.backend->launched();
}

}  // namespace

// A call that is launched when it is waited for: a receive on a GPU, which would hold a part of the
// GPU until the message comes.
class DeferredCall final : public Work::State {
 public:
  DeferredCall(Group::Impl& impl, std::function<Work()> launch)
      : impl_(impl), launch_(std::move(launch)) {}

  void wait() override {
    launch_up_to_this();
    work_.wait();
  }
  bool done() override {
    launch_up_to_this();
    return work_.done();
  }

  // Launches all deferred calls of a group, in order.
  static void launch_all(Group::Impl& impl) {
    while (!impl.deferred.empty()) launch_first(impl);
  }

 private:
  static void launch_first(Group::Impl& impl) {
    const auto first = impl.deferred.front();
    first->work_ = first->launch_();
    first->launch_ = nullptr;
    impl.deferred.pop_front();
  }
  void launch_up_to_this() {
    while (launch_) launch_first(impl_);
  }

  Group::Impl& impl_;
  std::function<Work()> launch_;  // null: it was launched
  Work work_;
};

namespace {

template <typename Body>
void run(const Group& group, const Call& call, const Body& body) {
  Group::Impl& impl = group.impl();
  if (impl.backend->is_stream_ordered()) {
    DeferredCall::launch_all(impl);
    return launch(impl, call, body).wait();
  }
  impl.backend->before_call();
  impl.queue.run([&] { carry_out(impl, call, body); });
}

// Returns the Work of an asynchronous call that has ended already.
Work finished_work(const Group& group) {
  CallListener* const listener = group.ledger().listener();
  std::function<void()> when_waited_for = listener ? listener->when_waited_for() : nullptr;
  if (!when_waited_for) return {};
  return Work(std::make_shared<EndedCall>(nullptr, std::move(when_waited_for)));
}

template <typename Body>
Work run_async(const Group& group, const Call& call, Body body) {
  Group::Impl& impl = group.impl();
  if (impl.backend->is_stream_ordered()) {
    DeferredCall::launch_all(impl);
    return launch(impl, call, body);
  }
  impl.backend->before_call();
  if (impl.backend->is_immediate()) {
    carry_out(impl, call, body);
    return finished_work(group);
  }
  return impl.queue.submit([&impl, call, body = std::move(body)] { carry_out(impl, call, body); });
}

// A tensor on meta has no memory that peers could read.
void check_memory(const Group& group, const Facts& facts) {
  if (group.impl().backend->moves_nothing()) return;
  for (const at::Tensor& buffer : facts.buffers) {
    COLOSSAL_CHECK(!buffer.is_meta(), "group {}: a tensor on meta, outside of a dry run",
                   group.axis());
  }
}

template <typename Body>
void issue(const Group& group, const Call& call, const Facts& facts, const Body& body) {
  check_memory(group, facts);
  book(group, call, facts, false);
  run(group, call, body);
}

template <typename Body>
Work issue_async(const Group& group, const Call& call, const Facts& facts, Body body) {
  check_memory(group, facts);
  book(group, call, facts, true);
  return run_async(group, call, std::move(body));
}

// Returns the ranks, within the group, that a call exchanges with.
using Partners = std::function<std::vector<int>()>;

Partners those_with_parts(const Group& group, Counts send_counts, Counts receive_counts) {
  return [=, &group] {
    std::vector<int> ranks;
    for (int rank = 0; rank < group.size(); ++rank) {
      const bool has_part = send_counts[rank] != 0 || receive_counts[rank] != 0;
      if (rank != group.rank() && has_part) ranks.push_back(rank);
    }
    return ranks;
  };
}

Partners ring_neighbours(const Group& group) {
  return [&group] {
    const int n = group.size();
    const std::set<int> ranks{(group.rank() + 1) % n, (group.rank() + n - 1) % n};
    return std::vector<int>(ranks.begin(), ranks.end());
  };
}

Partners chain_neighbours(const Group& group, int root) {
  return [=, &group] {
    const int n = group.size(), next = (group.rank() + 1) % n;
    std::vector<int> ranks;
    if (group.rank() != root) ranks.push_back((group.rank() + n - 1) % n);
    if (next != root) ranks.push_back(next);
    return ranks;
  };
}

Partners only(int rank) {
  return [rank] { return std::vector<int>{rank}; };
}

void copy_unless_same(const at::Tensor& from, const at::Tensor& into) {
  if (from.is_meta() || from.const_data_ptr() == into.const_data_ptr()) return;
  const at::NoGradGuard no_grad;
  into.copy_(from);
}

int64_t law_of_all_reduce(const at::Tensor& tensor, const Group& group) {
  return law::all_reduce(tensor.numel(), group.size(), group.rank(), tensor.element_size());
}

void check_broadcast(const at::Tensor& tensor, int root, const Group& group) {
  check_tensor(tensor);
  check_rank(root, group);
}

Call call_of_broadcast(const at::Tensor& tensor, int root, Reason reason) {
  Call call = call_of(Operation::broadcast, tensor, reason);
  call.root = root;
  return call;
}

Facts facts_of_broadcast(const at::Tensor& tensor, int root, const Group& group) {
  return {law::broadcast(tensor.numel(), group.size(), group.rank(), root, tensor.element_size()),
          {tensor},
          chain_neighbours(group, root)};
}

void check_peer(const at::Tensor& tensor, int peer, const Group& group) {
  check_tensor(tensor);
  check_rank(peer, group);
  COLOSSAL_CHECK(peer != group.rank(), "rank {} sends to itself", peer);
}

void check_reduce_scatter(const at::Tensor& full, const at::Tensor& part, Counts counts,
                          const Group& group) {
  check_counts(full, counts, group);
  check_tensor(part);
  check_sum(full, part);
  COLOSSAL_CHECK(part.numel() == counts[group.rank()], "part of {} elements, its count is {}",
                 part.numel(), counts[group.rank()]);
}

void check_all_to_all(const at::Tensor& send, Counts send_counts, const at::Tensor& receive,
                      Counts receive_counts, const Group& group) {
  check_counts(send, send_counts, group);
  check_counts(receive, receive_counts, group);
  COLOSSAL_CHECK(send.scalar_type() == receive.scalar_type(), "sends {}, receives {}",
                 c10::toString(send.scalar_type()), c10::toString(receive.scalar_type()));
}

// Each rank sends its own size, so the bytes of the call are not compared.
Call call_of_all_to_all(const at::Tensor& send, Reason reason) {
  Call call = call_of(Operation::all_to_all, send, reason);
  call.bytes = 0;
  return call;
}

Facts facts_of_all_to_all(const at::Tensor& send, Counts send_counts, const at::Tensor& receive,
                          Counts receive_counts, const Group& group) {
  return {law::all_to_all(send_counts, group.rank(), send.element_size()),
          {send, receive},
          those_with_parts(group, send_counts, receive_counts)};
}

}  // namespace

Work::Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

void Work::wait() {
  if (state_) state_->wait();
}

bool Work::done() const {
  return !state_ || state_->done();
}

// Receives that nobody has waited for are launched, since the ranks that send wait for them.
Group::Impl::~Impl() {
  try {
    DeferredCall::launch_all(*this);
  } catch (const std::exception&) {  // whoever waits learns of it
  }
}

Group::Group() : impl_(std::make_shared<Impl>()) {
  impl_->membership.ranks = {0};
  impl_->ledger = std::make_shared<Ledger>();
}

Group::Group(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

int Group::rank() const {
  return impl_->membership.rank;
}
int Group::size() const {
  return impl_->membership.size();
}
const std::string& Group::axis() const {
  return impl_->membership.axis;
}
const std::vector<int>& Group::ranks() const {
  return impl_->membership.ranks;
}
const char* Group::backend() const {
  return impl_->backend_name;
}
at::Device Group::device() const {
  return impl_->backend ? impl_->backend->device() : at::kCPU;
}
Ledger& Group::ledger() const {
  return *impl_->ledger;
}

Membership membership_of(const World& world, const std::string& axis,
                         const std::vector<int>& ranks) {
  for (int rank : ranks) {
    COLOSSAL_CHECK(0 <= rank && rank < world.size(), "rank {} in a world of {}", rank,
                   world.size());
  }
  std::vector<int> ascending = ranks;
  std::ranges::sort(ascending);
  COLOSSAL_CHECK(std::ranges::adjacent_find(ascending) == ascending.end(),
                 "a rank is twice in a group on axis {}", axis);
  const auto own = std::find(ranks.begin(), ranks.end(), world.rank());
  COLOSSAL_CHECK(own != ranks.end(), "rank {} makes a group on axis {} without itself",
                 world.rank(), axis);
  return {.axis = axis, .ranks = ranks, .rank = static_cast<int>(own - ranks.begin())};
}

Group make_group(const char* backend, std::shared_ptr<Ledger> ledger, const Membership& membership,
                 const std::function<std::shared_ptr<Backend>()>& make_backend) {
  auto impl = std::make_shared<Group::Impl>();
  impl->membership = membership;
  impl->ledger = std::move(ledger);
  impl->backend_name = backend;
  if (membership.size() > 1) impl->backend = make_backend();
  return Group(std::move(impl));
}

void all_reduce(const at::Tensor& tensor, const Group& group, Reason reason) {
  check_tensor(tensor);
  check_sum(tensor, tensor);
  if (group.size() == 1) return;
  const Call call = call_of(Operation::all_reduce, tensor, reason);
  issue(group, call, {law_of_all_reduce(tensor, group), {tensor}},
        [&](Backend& backend) { backend.all_reduce(call, tensor); });
}

Work all_reduce_async(const at::Tensor& tensor, const Group& group, Reason reason) {
  check_tensor(tensor);
  check_sum(tensor, tensor);
  if (group.size() == 1) return {};
  const Call call = call_of(Operation::all_reduce, tensor, reason);
  return issue_async(group, call, {law_of_all_reduce(tensor, group), {tensor}},
                     [call, tensor](Backend& backend) { backend.all_reduce(call, tensor); });
}

void reduce_scatter(const at::Tensor& full, const at::Tensor& part, Counts counts,
                    const Group& group, Reason reason) {
  check_reduce_scatter(full, part, counts, group);
  if (group.size() == 1) return copy_unless_same(full, part);
  const Call call = call_of(Operation::reduce_scatter, full, reason);
  issue(group, call, {law::reduce_scatter(counts, group.rank(), full.element_size()), {full, part}},
        [&](Backend& backend) { backend.reduce_scatter(call, full, part, counts); });
}

Work reduce_scatter_async(const at::Tensor& full, const at::Tensor& part, Counts counts,
                          const Group& group, Reason reason) {
  check_reduce_scatter(full, part, counts, group);
  if (group.size() == 1) {
    copy_unless_same(full, part);
    return {};
  }
  const Call call = call_of(Operation::reduce_scatter, full, reason);
  return issue_async(
      group, call, {law::reduce_scatter(counts, group.rank(), full.element_size()), {full, part}},
      [call, full, part, counts = std::vector(counts.begin(), counts.end())](Backend& backend) {
        backend.reduce_scatter(call, full, part, counts);
      });
}

void all_gather(const at::Tensor& full, Counts counts, const Group& group, Reason reason) {
  check_counts(full, counts, group);
  if (group.size() == 1) return;
  const Call call = call_of(Operation::all_gather, full, reason);
  issue(group, call, {law::all_gather(counts, group.rank(), full.element_size()), {full}},
        [&](Backend& backend) { backend.all_gather(call, full, counts); });
}

Work all_gather_async(const at::Tensor& full, Counts counts, const Group& group, Reason reason) {
  check_counts(full, counts, group);
  if (group.size() == 1) return {};
  const Call call = call_of(Operation::all_gather, full, reason);
  return issue_async(
      group, call, {law::all_gather(counts, group.rank(), full.element_size()), {full}},
      [call, full, counts = std::vector(counts.begin(), counts.end())](Backend& backend) {
        backend.all_gather(call, full, counts);
      });
}

void all_to_all(const at::Tensor& send, Counts send_counts, const at::Tensor& receive,
                Counts receive_counts, const Group& group, Reason reason) {
  check_all_to_all(send, send_counts, receive, receive_counts, group);
  if (group.size() == 1) return copy_unless_same(send, receive);
  const Call call = call_of_all_to_all(send, reason);
  issue(group, call, facts_of_all_to_all(send, send_counts, receive, receive_counts, group),
        [&](Backend& backend) {
          backend.all_to_all(call, send, send_counts, receive, receive_counts);
        });
}

Work all_to_all_async(const at::Tensor& send, Counts send_counts, const at::Tensor& receive,
                      Counts receive_counts, const Group& group, Reason reason) {
  check_all_to_all(send, send_counts, receive, receive_counts, group);
  if (group.size() == 1) {
    copy_unless_same(send, receive);
    return {};
  }
  const Call call = call_of_all_to_all(send, reason);
  return issue_async(
      group, call, facts_of_all_to_all(send, send_counts, receive, receive_counts, group),
      [call, send, receive, sent = std::vector(send_counts.begin(), send_counts.end()),
       received = std::vector(receive_counts.begin(), receive_counts.end())](Backend& backend) {
        backend.all_to_all(call, send, sent, receive, received);
      });
}

Work rotate_async(const at::Tensor& send, const at::Tensor& receive, const Group& group,
                  Reason reason) {
  check_tensor(send);
  check_tensor(receive);
  COLOSSAL_CHECK(send.scalar_type() == receive.scalar_type(), "sends {}, receives {}",
                 c10::toString(send.scalar_type()), c10::toString(receive.scalar_type()));
  if (group.size() == 1) {
    copy_unless_same(send, receive);
    return {};
  }
  Call call = call_of(Operation::rotate, send, reason);
  call.bytes = 0;
  return issue_async(
      group, call, {bytes_of(send), {send, receive}, ring_neighbours(group)},
      [call, send, receive](Backend& backend) { backend.rotate(call, send, receive); });
}

void broadcast(const at::Tensor& tensor, int root, const Group& group, Reason reason) {
  check_broadcast(tensor, root, group);
  if (group.size() == 1) return;
  const Call call = call_of_broadcast(tensor, root, reason);
  issue(group, call, facts_of_broadcast(tensor, root, group),
        [&](Backend& backend) { backend.broadcast(call, tensor, root); });
}

Work broadcast_async(const at::Tensor& tensor, int root, const Group& group, Reason reason) {
  check_broadcast(tensor, root, group);
  if (group.size() == 1) return {};
  const Call call = call_of_broadcast(tensor, root, reason);
  return issue_async(
      group, call, facts_of_broadcast(tensor, root, group),
      [call, tensor, root](Backend& backend) { backend.broadcast(call, tensor, root); });
}

void send(const at::Tensor& tensor, int to, const Group& group, Reason reason) {
  check_peer(tensor, to, group);
  const Call call = call_of(Operation::send, tensor, reason);
  issue(group, call, {bytes_of(tensor), {tensor}, only(to)},
        [&](Backend& backend) { backend.send(call, tensor, to); });
}

Work send_async(const at::Tensor& tensor, int to, const Group& group, Reason reason) {
  check_peer(tensor, to, group);
  const Call call = call_of(Operation::send, tensor, reason);
  return issue_async(group, call, {bytes_of(tensor), {tensor}, only(to)},
                     [call, tensor, to](Backend& backend) { backend.send(call, tensor, to); });
}

void receive(const at::Tensor& tensor, int from, const Group& group, Reason reason) {
  check_peer(tensor, from, group);
  const Call call = call_of(Operation::send, tensor, reason);
  tell_listener(group, call, {0, {tensor}, only(from)}, false);
  run(group, call, [&](Backend& backend) { backend.receive(call, tensor, from); });
}

Work receive_async(const at::Tensor& tensor, int from, const Group& group, Reason reason) {
  check_peer(tensor, from, group);
  const Call call = call_of(Operation::send, tensor, reason);
  tell_listener(group, call, {0, {tensor}, only(from)}, true);
  const auto body = [call, tensor, from](Backend& backend) { backend.receive(call, tensor, from); };
  Group::Impl& impl = group.impl();
  if (!impl.backend->is_stream_ordered()) return run_async(group, call, body);
  impl.deferred.push_back(std::make_shared<DeferredCall>(
      impl, [&impl, call, body] { return launch(impl, call, body); }));
  return Work(impl.deferred.back());
}

void barrier(const Group& group) {
  if (group.size() == 1) return;
  Group::Impl& impl = group.impl();
  const Call call;
  DeferredCall::launch_all(impl);
  impl.queue.run([&] { carry_out(impl, call, [&](Backend& backend) { backend.barrier(call); }); });
}

at::Tensor on_host(const at::Tensor& tensor, const Group& group) {
  at::Tensor copy = tensor.cpu();
  if (Backend* const backend = group.impl().backend.get()) backend->check_results();
  return copy;
}

at::Tensor on_host_checked(const at::Tensor& tensor, const Group& group) {
  at::Tensor copy = tensor.cpu();
  if (Backend* const backend = group.impl().backend.get()) backend->check_results_of_all();
  return copy;
}

at::Tensor shared_empty(int64_t elements, const at::TensorOptions& options, const Group& group) {
  const bool shares = group.size() > 1 && elements > 0 && options.device().is_cpu();
  c10::DataPtr memory;
  const auto type = c10::typeMetaToScalarType(options.dtype());
  const Call call{.operation = Operation::shared_empty,
                  .reason = Reason::rendezvous,
                  .type = type,
                  .bytes = elements * static_cast<int64_t>(c10::elementSize(type))};
  if (shares) {
    Group::Impl& impl = group.impl();
    impl.queue.run([&] {
      carry_out(impl, call, [&](Backend& backend) { memory = backend.shared_memory(call); });
    });
  }
  if (!memory) return at::empty({elements}, options);
  if (CallListener* const listener = group.ledger().listener()) {
    memory = listener->made(std::move(memory), call.bytes);
  }
  const c10::Storage storage(c10::Storage::use_byte_size_t(), call.bytes, std::move(memory));
  return at::empty({0}, options).set_(storage, 0, {elements}, {1});
}

namespace {

// The bytes of all ranks, concatenated.
struct GatheredBytes {
  std::vector<int64_t> offsets;  // n + 1 offsets
  at::Tensor all;                // on the host

  std::string of_rank(int rank) const {
    const auto* characters = reinterpret_cast<const char*>(all.const_data_ptr<uint8_t>());
    return {characters + offsets[rank], characters + offsets[rank + 1]};
  }
};

bool moves_nothing(const Group& group) {
  return group.impl().backend->moves_nothing();
}

// Returns how many bytes each rank gives. In a dry run, all are assumed to give as many as this
// one.
std::vector<int64_t> gather_sizes(int64_t size, const Group& group, Reason reason) {
  const int n = group.size();
  at::Tensor sizes = at::full({n}, size, at::TensorOptions(at::kLong).device(group.device()));
  all_gather(sizes, std::vector<int64_t>(n, 1), group, reason);
  sizes = on_host(sizes, group);
  return {sizes.const_data_ptr<int64_t>(), sizes.const_data_ptr<int64_t>() + n};
}

GatheredBytes gather_all(const std::string& bytes, const Group& group, Reason reason) {
  const std::vector<int64_t> counts = gather_sizes(std::ssize(bytes), group, reason);
  GatheredBytes gathered{offsets_of(counts), {}};
  if (moves_nothing(group)) {  // for 100,000 ranks there would not be enough memory
    all_gather(at::empty({gathered.offsets.back()}, at::TensorOptions(at::kByte).device(at::kMeta)),
               counts, group, reason);
    return gathered;
  }
  at::Tensor all = at::empty({gathered.offsets.back()}, at::kByte);
  std::copy_n(bytes.data(), bytes.size(),
              all.mutable_data_ptr<uint8_t>() + gathered.offsets[group.rank()]);
  all = all.to(group.device());
  all_gather(all, counts, group, reason);
  gathered.all = on_host(all, group);
  return gathered;
}

}  // namespace

std::vector<std::string> gather_bytes(const std::string& bytes, const Group& group, Reason reason) {
  if (group.size() == 1) return {bytes};
  const GatheredBytes gathered = gather_all(bytes, group, reason);
  if (moves_nothing(group)) return std::vector<std::string>(group.size(), bytes);
  std::vector<std::string> of_ranks;
  for (int rank = 0; rank < group.size(); ++rank) of_ranks.push_back(gathered.of_rank(rank));
  return of_ranks;
}

std::set<std::string> gather_distinct_bytes(const std::string& bytes, const Group& group,
                                            Reason reason) {
  if (group.size() == 1) return {bytes};
  const GatheredBytes gathered = gather_all(bytes, group, reason);
  if (moves_nothing(group)) return {bytes};
  std::set<std::string> distinct;
  for (int rank = 0; rank < group.size(); ++rank) distinct.insert(gathered.of_rank(rank));
  return distinct;
}

}  // namespace colossal::comm
