#include "colossal/comm/gloo.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <array>
#include <csignal>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/comm/group_impl.h"
#include "colossal/comm/point_to_point.h"

namespace colossal::comm {
namespace {

using BackendPointer = c10::intrusive_ptr<c10d::Backend>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

// Gloo matches messages by tag, and a message that is longer than the memory posted for it ends the
// process. So data is tagged with its size: ranks that disagree wait, and the headers tell why.
constexpr int kHeaderTag = 0;
constexpr int kNobodySendsThis = std::numeric_limits<int>::max();
// How the own calls end after abort().
constexpr const char* kAborted = "was aborted: ";
constexpr int kFarewellTag = kNobodySendsThis - 1;
constexpr size_t kFarewellBytes = 512;

class GlooBackend final : public PointToPointBackend {
 public:
  GlooBackend(Membership membership, std::shared_ptr<Ledger> ledger,
              std::chrono::milliseconds timeout, BackendPointer gloo)
      : PointToPointBackend(std::move(membership), std::move(ledger), timeout),
        gloo_(std::move(gloo)),
        farewells_(size()) {
    expect_farewells();
  }

  void close(const std::string& why) override {
    end_all("found its group closed by an earlier failure: ", why);
  }
  // From any thread: ends what is under way and what is to come, here with `prefix` and `why`;
  // tells the peers `why` and closes the connections, so that they notice at once.
  void end_all(const char* prefix, const std::string& why);

  // What a wait for `peer` that threw `error` means; `missing`: what the peer did not do.
  CallFailure explain(int peer, const std::string& error, const char* missing,
                      const Deadline& deadline) const;

 private:
  class MessageTransfer;

  template <typename Post>
  TransferPointer start(int peer, const char* missing, const Post& post);
  void expect_farewells();
  void say_farewell(const std::string& why);
  std::string farewell_of(int peer) const;

  TransferPointer post_send(Kind kind, const void* memory, int64_t bytes, int to) override;
  TransferPointer post_receive(Kind kind, void* memory, int64_t bytes, int from) override;

  BackendPointer gloo_;
  mutable std::mutex mutex_;  // of closed_ and of the start of messages
  std::string closed_;        // why; empty: open

  // What a peer said before it closed its connections: who failed first is known even where ranks
  // fall like dominoes.
  struct Farewell {
    std::array<char, kFarewellBytes> text{};
    WorkPointer arrival;
  };
  std::vector<Farewell> farewells_;
};

class GlooBackend::MessageTransfer final : public Transfer {
 public:
  MessageTransfer(const GlooBackend& backend, WorkPointer work, int peer, const char* missing)
      : backend_(backend), work_(std::move(work)), peer_(peer), missing_(missing) {}

  void wait(const Deadline& deadline) override {
    try {
      work_->wait(deadline.remaining());
    } catch (const std::exception& error) {
      throw backend_.explain(peer_, error.what(), missing_, deadline);
    }
  }

 private:
  const GlooBackend& backend_;
  WorkPointer work_;
  int peer_;
  const char* missing_;
};

CallFailure GlooBackend::explain(int peer, const std::string& error, const char* missing,
                                 const Deadline& deadline) const {
  const std::lock_guard lock(mutex_);
  if (!closed_.empty()) return CallFailure(closed_);
  const std::string name = name_rank(membership(), peer);
  if (deadline.remaining() <= std::chrono::milliseconds(1)) return deadline.failure(name + missing);
  if (const std::string why = farewell_of(peer); !why.empty()) {
    return CallFailure("lost " + name + ": " + why);
  }
  const auto says = [&](const char* text) { return error.find(text) != std::string::npos; };
  const bool closed = says("closed by peer") || says("reset by peer") || says("Broken pipe");
  return CallFailure("lost " + name + ": " + (closed ? "connection closed" : error));
}

std::vector<at::Tensor> as_tensors(void* memory, int64_t bytes) {
  return {at::from_blob(memory, {bytes}, at::TensorOptions(at::kByte))};
}

void GlooBackend::expect_farewells() {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    Farewell& farewell = farewells_[peer];
    std::vector<at::Tensor> text = as_tensors(farewell.text.data(), kFarewellBytes);
    farewell.arrival = gloo_->recv(text, peer, kFarewellTag);
  }
}

// Of a peer whose connection is closed: then its farewell is here, or never will be.
std::string GlooBackend::farewell_of(int peer) const {
  const Farewell& farewell = farewells_[peer];
  try {
    farewell.arrival->wait(std::chrono::milliseconds(1));
    return farewell.text.data();
  } catch (const std::exception&) {
    return "";
  }
}

void GlooBackend::say_farewell(const std::string& why) {
  std::array<char, kFarewellBytes> text{};
  why.copy(text.data(), kFarewellBytes - 1);
  std::vector<WorkPointer> sends;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    try {
      std::vector<at::Tensor> tensors = as_tensors(text.data(), kFarewellBytes);
      sends.push_back(gloo_->send(tensors, peer, kFarewellTag));
    } catch (const std::exception&) {
      // It is gone: nobody to tell.
    }
  }
  for (const WorkPointer& send : sends) {
    try {
      send->wait(std::chrono::milliseconds(20));
    } catch (const std::exception&) {
      // Likewise, or it does not read.
    }
  }
}

// Gloo has no call that ends a group. But when a wait runs out of time, it closes the connections
// of the whole group with an error that wakes every other wait: so we wait for nothing.
void GlooBackend::end_all(const char* prefix, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!closed_.empty()) return;
  closed_ = prefix + why;
  say_farewell(why);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    try {
      std::vector<at::Tensor> nothing{at::empty({1}, at::kByte)};
      gloo_->recv(nothing, peer, kNobodySendsThis)->wait(std::chrono::milliseconds(1));
    } catch (const std::exception&) {
      // Either what was wanted, or this connection is closed already.
    }
  }
}

int tag_of(Transport::Kind kind, int64_t bytes) {
  return kind == Transport::Kind::header ? kHeaderTag : static_cast<int>(bytes);
}

TransferPointer GlooBackend::post_send(Kind kind, const void* memory, int64_t bytes, int to) {
  std::vector<at::Tensor> tensors = as_tensors(const_cast<void*>(memory), bytes);
  return start(to, " did not receive",
               [&] { return gloo_->send(tensors, to, tag_of(kind, bytes)); });
}

TransferPointer GlooBackend::post_receive(Kind kind, void* memory, int64_t bytes, int from) {
  std::vector<at::Tensor> tensors = as_tensors(memory, bytes);
  return start(from, kind == Kind::header ? " did not arrive" : " did not send",
               [&] { return gloo_->recv(tensors, from, tag_of(kind, bytes)); });
}

template <typename Post>
TransferPointer GlooBackend::start(int peer, const char* missing, const Post& post) {
  std::string error;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_.empty()) throw CallFailure(closed_);
    try {
      return std::make_unique<MessageTransfer>(*this, post(), peer, missing);
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
  }
  throw explain(peer, error, missing, new_deadline());
}

// Gloo's writes to a connection that the peer has closed raise SIGPIPE, which by default ends the
// process before anybody can say why.
void ignore_broken_pipes() {
  struct sigaction current {};
  sigaction(SIGPIPE, nullptr, &current);
  if (current.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

using DevicePointer = std::shared_ptr<gloo::transport::Device>;

// A device is a thread that moves bytes. Ranks that are threads of one process share it: five times
// faster than one for each. It lives as long as somebody uses it.
DevicePointer shared_device(const std::string& interface_address) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<gloo::transport::Device>> devices;
  const std::lock_guard lock(mutex);
  DevicePointer device = devices[interface_address].lock();
  if (!device) {
    try {
      device = c10d::ProcessGroupGloo::createDeviceForHostname(interface_address);
    } catch (const std::exception& error) {
      throw CommError(fmt::format("no data sockets on interface address {}: {}", interface_address,
                                  error.what()));
    }
    devices[interface_address] = device;
  }
  return device;
}

class GlooWorld final : public World {
 public:
  GlooWorld(const Rendezvous& rendezvous, StorePointer store, std::chrono::milliseconds timeout)
      : rank_(rendezvous.rank),
        size_(rendezvous.size),
        timeout_(timeout),
        store_(std::move(store)),
        device_(shared_device(rendezvous.interface_address)) {
    ignore_broken_pipes();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* backend() const override { return "gloo"; }

  Group group(const std::string& axis, const std::vector<int>& ranks) override {
    const Membership membership = membership_of(*this, axis, ranks);
    return make_group(*this, ledger_, membership, [&] { return make_backend(membership); });
  }

  void abort(const std::string& why) override {
    const std::lock_guard lock(mutex_);
    aborted_ = why;
    for (const auto& weak : backends_) {
      if (const auto backend = weak.lock()) backend->end_all(kAborted, aborted_);
    }
  }

 private:
  std::shared_ptr<Backend> make_backend(const Membership& membership);

  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  StorePointer store_;
  DevicePointer device_;
  std::map<std::string, int> made_;  // groups by axis and ranks
  std::mutex mutex_;                 // of the two that abort() uses, from any thread
  std::vector<std::weak_ptr<GlooBackend>> backends_;
  std::string aborted_;
};

// Collective: returns when all members have connected to each other.
std::shared_ptr<Backend> GlooWorld::make_backend(const Membership& membership) {
  const std::string name = fmt::format("{}/{}", membership.axis, fmt::join(membership.ranks, ","));
  auto store = c10::make_intrusive<c10d::PrefixStore>(
      fmt::format("group/{}/{}", name, made_[name]++), store_);
  auto options = c10d::ProcessGroupGloo::Options::create(timeout_);
  options->devices = {device_};
  options->threads = 1;
  BackendPointer gloo;
  try {
    gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, membership.rank, membership.size(),
                                                       options);
  } catch (const std::exception& error) {
    throw CommError(fmt::format("{}: no connection to all members within {}: {}",
                                describe_caller(membership), exact_duration(timeout_),
                                error.what()));
  }
  auto backend = std::make_shared<GlooBackend>(membership, ledger_, timeout_, std::move(gloo));
  const std::lock_guard lock(mutex_);
  backends_.push_back(backend);
  if (!aborted_.empty()) backend->end_all(kAborted, aborted_);
  return backend;
}

}  // namespace

std::unique_ptr<World> gloo_world(const Rendezvous& rendezvous, StorePointer store,
                                  std::chrono::milliseconds timeout) {
  return std::make_unique<GlooWorld>(rendezvous, std::move(store), timeout);
}

}  // namespace colossal::comm
