#include "colossal/comm/nccl.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/comm/gpus.h"
#include "colossal/comm/group_impl.h"
#include "colossal/comm/nccl_backend.h"
#include "colossal/comm/nccl_library.h"
#include "colossal/comm/nccl_watch.h"
#include "colossal/comm/open_backends.h"

namespace colossal::comm {
namespace {

class NcclWorld final : public World {
 public:
  NcclWorld(std::unique_ptr<World> host_world, StorePointer store, int device,
            std::chrono::milliseconds timeout)
      : World(host_world->shared_ledger()),
        host_(std::move(host_world)),
        device_(at::kCUDA, static_cast<c10::DeviceIndex>(device)),
        timeout_(timeout),
        store_(std::move(store)),
        watch_(std::make_shared<NcclWatch>(store_, host_->rank(), timeout)) {
    c10::impl::VirtualGuardImpl(device_.type()).setDevice(device_);  // where this thread allocates
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  const char* backend() const override { return "nccl"; }
  c10::Device device() const override { return device_; }

  Group group(const std::string& axis, const std::vector<int>& ranks) override {
    const Membership membership = membership_of(*this, axis, ranks);
    return make_group(backend(), ledger_, membership, [&] { return make_backend(membership); });
  }
  Group host_group(const std::string& axis, const std::vector<int>& ranks) override {
    return host_->group(axis, ranks);
  }

  void abort(const std::string& why) override {
    host_->abort(why);
    watch_->abort(why);
    backends_.abort(why);  // also those that are still to be made
  }

 private:
  // The group's first rank makes the identity of its communicator and publishes it.
  nccl::UniqueId meet(const Membership& membership, const std::string& name) {
    const std::string key = "nccl/id/" + name;
    nccl::UniqueId id;
    if (membership.rank == 0) {
      const nccl::Result result = nccl_functions().get_unique_id(&id);
      if (result != nccl::Result::success) {
        throw CallFailure(fmt::format("failed: NCCL: {}", describe(result, nullptr)));
      }
      store_->set(key, std::vector<uint8_t>(id.bytes.begin(), id.bytes.end()));
      return id;
    }
    const std::string published = wait_for(*store_, key, timeout_);
    if (published.size() != id.bytes.size()) {
      throw CallFailure(fmt::format("timed out after {}: {} did not come", exact_duration(timeout_),
                                    name_rank(membership, 0)));
    }
    std::ranges::copy(published, id.bytes.begin());
    return id;
  }

  std::shared_ptr<Backend> make_backend(const Membership& membership) {
    const std::string name = backends_.next_name(membership);
    const c10::DeviceGuard on_device(device_);
    try {
      auto backend = std::make_shared<NcclBackend>(membership, ledger_, timeout_, name, device_,
                                                   meet(membership, name), watch_);
      backend->connect();
      backends_.add(backend);
      return backend;
    } catch (const CallFailure& failure) {
      throw CommError(fmt::format("{}: its connection over NCCL {}", describe_caller(membership),
                                  failure.what()));
    } catch (const c10::Error& error) {  // of the store, or of the GPU
      throw CommError(fmt::format("{}: its connection over NCCL failed: {}",
                                  describe_caller(membership), reason_of(error)));
    }
  }

  std::unique_ptr<World> host_;
  at::Device device_;
  std::chrono::milliseconds timeout_;
  StorePointer store_;
  std::shared_ptr<NcclWatch> watch_;
  OpenBackends backends_;
};

}  // namespace

std::unique_ptr<World> nccl_world(std::unique_ptr<World> host_world, StorePointer store, int device,
                                  std::chrono::milliseconds timeout) {
  if (device >= num_gpus()) {
    throw ConfigError(
        fmt::format("backend \"nccl\": rank {} is number {} on its host, which has only {} GPUs; "
                    "start fewer ranks or use backend \"gloo\"",
                    host_world->rank(), device, num_gpus()));
  }
  nccl_functions();  // throws without NCCL
  return std::make_unique<NcclWorld>(std::move(host_world), std::move(store), device, timeout);
}

}  // namespace colossal::comm
