#include "colossal/comm/shm.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/comm/gloo.h"
#include "colossal/comm/group_impl.h"
#include "colossal/comm/hierarchical_backend.h"
#include "colossal/comm/open_backends.h"
#include "colossal/comm/shm_backend.h"

namespace colossal::comm {
namespace {

class ShmWorld final : public World {
 public:
  ShmWorld(const Rendezvous& rendezvous, StorePointer store, std::vector<std::string> hosts,
           std::chrono::milliseconds timeout)
      : rank_(rendezvous.rank),
        timeout_(timeout),
        store_(std::move(store)),
        hosts_(std::move(hosts)) {
    if (Hosts(hosts_).size() > 1) between_hosts_ = gloo_world(rendezvous, store_, timeout, ledger_);
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hosts_.size()); }
  const char* backend() const override { return between_hosts_ ? "shm+gloo" : "shm"; }

  Group group(const std::string& axis, const std::vector<int>& ranks) override {
    const Membership membership = membership_of(*this, axis, ranks);
    std::vector<std::string> identities;
    for (int rank : ranks) identities.push_back(hosts_[rank]);
    const Hosts hosts(identities);
    if (hosts.size() == 1) {
      return make_group("shm", ledger_, membership, [&] { return make_shm(membership); });
    }
    const Group over_gloo = between_hosts_->group(axis, ranks);
    if (hosts.size() == over_gloo.size()) return over_gloo;
    return make_group(backend(), ledger_, membership, [&] {
      return make_hierarchical(membership, hosts, over_gloo.impl().backend);
    });
  }

  void abort(const std::string& why) override {
    if (between_hosts_) between_hosts_->abort(why);
    backends_.abort(why);
  }

 private:
  std::shared_ptr<ShmBackend> make_shm(const Membership& membership);
  std::shared_ptr<Backend> make_hierarchical(const Membership& membership, const Hosts& hosts,
                                             const std::shared_ptr<Backend>& gloo);

  int rank_;
  std::chrono::milliseconds timeout_;
  StorePointer store_;
  std::vector<std::string> hosts_;  // of each rank
  std::unique_ptr<World> between_hosts_;
  OpenBackends backends_;
};

// The group's first rank creates the memory and publishes its address, at which it can be opened
// only until all have come.
std::shared_ptr<ShmBackend> ShmWorld::make_shm(const Membership& membership) {
  const std::string key = "shared/" + backends_.next_name(membership);
  std::shared_ptr<ShmBackend> backend;
  try {
    if (membership.rank == 0) {
      SharedMemory memory = SharedMemory::create(ShmBoard::bytes_needed(membership.size()));
      store_->set(key, memory.address());
      backend = std::make_shared<ShmBackend>(membership, ledger_, timeout_, std::move(memory));
    } else {
      const std::string address = wait_for(*store_, key, timeout_);
      if (address.empty()) {
        throw CommError(fmt::format("{}: rank {} made no shared memory within {}",
                                    describe_caller(membership), membership.ranks[0],
                                    exact_duration(timeout_)));
      }
      backend =
          std::make_shared<ShmBackend>(membership, ledger_, timeout_, SharedMemory::open(address));
    }
  } catch (const c10::Error& error) {
    throw CommError(fmt::format("{}: no shared memory from rank {}: {}",
                                describe_caller(membership), membership.ranks[0],
                                reason_of(error)));
  }
  backends_.add(backend);
  return backend;
}

std::shared_ptr<Backend> ShmWorld::make_hierarchical(const Membership& membership,
                                                     const Hosts& hosts,
                                                     const std::shared_ptr<Backend>& gloo) {
  Membership here{.axis = membership.axis, .rank = hosts.place[membership.rank]};
  here.places = hosts.members[hosts.host[membership.rank]];
  for (int place : here.places) here.ranks.push_back(membership.ranks[place]);
  auto backend = std::make_shared<HierarchicalBackend>(
      membership, ledger_, timeout_, hosts, here.size() > 1 ? make_shm(here) : nullptr,
      std::static_pointer_cast<PointToPointBackend>(gloo));
  try {
    // Rank 0 serves the store: if it left now, other hosts could not open their memory.
    backend->barrier({});
  } catch (const CallFailure& failure) {
    throw CommError(fmt::format("{}: not all members have come: {}", describe_caller(membership),
                                failure.what()));
  }
  return backend;
}

}  // namespace

std::unique_ptr<World> shm_world(const Rendezvous& rendezvous, StorePointer store,
                                 std::vector<std::string> hosts,
                                 std::chrono::milliseconds timeout) {
  return std::make_unique<ShmWorld>(rendezvous, std::move(store), std::move(hosts), timeout);
}

}  // namespace colossal::comm
