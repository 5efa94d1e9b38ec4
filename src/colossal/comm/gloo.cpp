#include "colossal/comm/gloo.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <csignal>
#include <map>
#include <mutex>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/comm/gloo_backend.h"
#include "colossal/comm/group_impl.h"
#include "colossal/comm/open_backends.h"

namespace colossal::comm {
namespace {

// When Gloo writes to a connection that the peer has closed, it raises SIGPIPE, which by default
// ends the process before it can report the reason.
void ignore_broken_pipes() {
  struct sigaction current {};
  sigaction(SIGPIPE, nullptr, &current);
  if (current.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

using DevicePointer = std::shared_ptr<gloo::transport::Device>;

// A device is a thread that moves bytes. Ranks that are threads of one process share one, which is
// five times faster than one for each. It lives as long as it is used.
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
                                  reason_of(error)));
    }
    devices[interface_address] = device;
  }
  return device;
}

class GlooWorld final : public World {
 public:
  GlooWorld(const Rendezvous& rendezvous, StorePointer store, std::chrono::milliseconds timeout,
            std::shared_ptr<Ledger> ledger)
      : World(std::move(ledger)),
        rank_(rendezvous.rank),
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
    return make_group(backend(), ledger_, membership, [&] { return make_backend(membership); });
  }

  void abort(const std::string& why) override { backends_.abort(why); }

 private:
  std::shared_ptr<Backend> make_backend(const Membership& membership);

  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  StorePointer store_;
  DevicePointer device_;
  OpenBackends backends_;
};

// Collective. Returns when all members are connected to each other.
std::shared_ptr<Backend> GlooWorld::make_backend(const Membership& membership) {
  auto store =
      c10::make_intrusive<c10d::PrefixStore>("group/" + backends_.next_name(membership), store_);
  auto options = c10d::ProcessGroupGloo::Options::create(timeout_);
  options->devices = {device_};
  options->threads = 1;
  c10::intrusive_ptr<c10d::Backend> gloo;
  try {
    gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, membership.rank, membership.size(),
                                                       options);
  } catch (const std::exception& error) {
    throw CommError(fmt::format("{}: no connection to all members within {}: {}",
                                describe_caller(membership), exact_duration(timeout_),
                                reason_of(error)));
  }
  auto backend = std::make_shared<GlooBackend>(membership, ledger_, timeout_, std::move(gloo));
  try {
    // Gloo returns as soon as this rank's own connections are made. If this rank left the group
    // now, other ranks that still connect would wait for it in vain.
    backend->barrier({});
  } catch (const CallFailure& failure) {
    backend->close(failure.what());
    throw CommError(fmt::format("{}: not all members have connected: {}",
                                describe_caller(membership), failure.what()));
  }
  backends_.add(backend);
  return backend;
}

}  // namespace

std::unique_ptr<World> gloo_world(const Rendezvous& rendezvous, StorePointer store,
                                  std::chrono::milliseconds timeout,
                                  std::shared_ptr<Ledger> ledger) {
  return std::make_unique<GlooWorld>(rendezvous, std::move(store), timeout, std::move(ledger));
}

}  // namespace colossal::comm
