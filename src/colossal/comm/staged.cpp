#include "colossal/comm/staged.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "colossal/comm/current_stream.h"
#include "colossal/comm/group_impl.h"

namespace colossal::comm {
namespace {

// Copies of GPU tensors in host memory that the GPU can read and write while the host goes on
// (pinned memory).
class StagedBackend final : public Backend {
 public:
  // host_group: the same members, for tensors on the host.
  StagedBackend(const Group& host_group, std::shared_ptr<Ledger> ledger, at::Device device)
      : Backend(host_group.impl().membership, std::move(ledger), std::chrono::milliseconds::max()),
        host_group_(host_group),
        device_(device),
        stream_(device.is_cpu() ? current_stream(device)
                                : c10::impl::VirtualGuardImpl(device.type())
                                      .getStreamFromGlobalPool(device, /*isHighPriority=*/true)) {}

  at::Device device() const override { return device_; }
  void before_call() override {
    if (!device_.is_cpu()) current_stream(device_).synchronize();
  }
  void close(const std::string& why) override { host().close(why); }
  void abort(const std::string& why) override { host().abort(why); }

  void all_reduce(const Call& call, const at::Tensor& tensor) override {
    const Copies copies(*this);
    const at::Tensor on_host = copies.copy(tensor);
    host().all_reduce(call, on_host);
    copies.write_back(tensor, on_host);
  }

  void reduce_scatter(const Call& call, const at::Tensor& full, const at::Tensor& part,
                      Counts counts) override {
    const Copies copies(*this);
    const at::Tensor sum = copies.make(part);
    host().reduce_scatter(call, copies.copy(full), sum, counts);
    copies.write_back(part, sum);
  }

  void all_gather(const Call& call, const at::Tensor& full, Counts counts) override {
    const Copies copies(*this);
    const at::Tensor on_host = copies.make(full);
    const std::vector<int64_t> offsets = offsets_of(counts);
    const auto own = [&](const at::Tensor& tensor) {
      return tensor.view(-1).narrow(0, offsets[rank()], counts[rank()]);
    };
    copies.read_into(own(on_host), own(full));
    host().all_gather(call, on_host, counts);
    copies.write_back(full, on_host);
  }

  void all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                  const at::Tensor& receive, Counts receive_counts) override {
    const Copies copies(*this);
    const at::Tensor received = copies.make(receive);
    host().all_to_all(call, copies.copy(send), send_counts, received, receive_counts);
    copies.write_back(receive, received);
  }

  void rotate(const Call& call, const at::Tensor& send, const at::Tensor& receive) override {
    const Copies copies(*this);
    const at::Tensor received = copies.make(receive);
    host().rotate(call, copies.copy(send), received);
    copies.write_back(receive, received);
  }

  void broadcast(const Call& call, const at::Tensor& tensor, int root) override {
    const Copies copies(*this);
    const at::Tensor on_host = rank() == root ? copies.copy(tensor) : copies.make(tensor);
    host().broadcast(call, on_host, root);
    if (rank() != root) copies.write_back(tensor, on_host);
  }

  void send(const Call& call, const at::Tensor& tensor, int to) override {
    const Copies copies(*this);
    host().send(call, copies.copy(tensor), to);
  }

  void receive(const Call& call, const at::Tensor& tensor, int from) override {
    const Copies copies(*this);
    const at::Tensor on_host = copies.make(tensor);
    host().receive(call, on_host, from);
    copies.write_back(tensor, on_host);
  }

  void barrier(const Call& call) override { host().barrier(call); }

 private:
  // The copies of one call, on the backend's own stream, so that the GPU can compute meanwhile.
  class Copies {
   public:
    explicit Copies(const StagedBackend& backend)
        : backend_(backend), on_stream_(backend.stream_) {}

    // Allocates on the host what holds a tensor like this one.
    at::Tensor make(const at::Tensor& like) const {
      const bool pinned = !backend_.device_.is_cpu();
      return at::empty(like.sizes(), like.options().device(at::kCPU).pinned_memory(pinned));
    }
    void read_into(const at::Tensor& on_host, const at::Tensor& tensor) const {
      on_host.copy_(tensor, /*non_blocking=*/true);
      wait();
    }
    at::Tensor copy(const at::Tensor& tensor) const {
      const at::Tensor on_host = make(tensor);
      read_into(on_host, tensor);
      return on_host;
    }
    void write_back(const at::Tensor& tensor, const at::Tensor& on_host) const {
      tensor.copy_(on_host, /*non_blocking=*/true);
      wait();
    }

   private:
    void wait() const {
      if (!backend_.device_.is_cpu()) backend_.stream_.synchronize();
    }

    const StagedBackend& backend_;
    // Calls write to parameters that require gradients, and to tensors of inference mode.
    at::AutoDispatchBelowADInplaceOrView without_autograd_;
    c10::StreamGuard on_stream_;
  };

  Backend& host() { return *host_group_.impl().backend; }

  Group host_group_;
  at::Device device_;
  c10::Stream stream_;
};

class StagedWorld final : public World {
 public:
  StagedWorld(std::unique_ptr<World> host_world, c10::Device device)
      : World(host_world->shared_ledger()), host_(std::move(host_world)), device_(device) {
    c10::impl::VirtualGuardImpl(device.type()).setDevice(device);  // where this thread allocates
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  const char* backend() const override { return host_->backend(); }
  c10::Device device() const override { return device_; }

  Group group(const std::string& axis, const std::vector<int>& ranks) override {
    const Group of_host = host_->group(axis, ranks);
    return make_group(of_host.backend(), ledger_, of_host.impl().membership,
                      [&] { return std::make_shared<StagedBackend>(of_host, ledger_, device_); });
  }
  Group host_group(const std::string& axis, const std::vector<int>& ranks) override {
    return host_->group(axis, ranks);
  }

  void abort(const std::string& why) override { host_->abort(why); }

 private:
  std::unique_ptr<World> host_;
  c10::Device device_;
};

}  // namespace

std::unique_ptr<World> staged_world(std::unique_ptr<World> host_world, c10::Device device) {
  return std::make_unique<StagedWorld>(std::move(host_world), device);
}

}  // namespace colossal::comm
