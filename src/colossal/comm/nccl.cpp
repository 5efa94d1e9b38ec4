// Groups of GPUs over NCCL. Uses the library's collectives if parts are even, otherwise its grouped
// sends and receives. The ledger's wire column is what the library is assumed to send, because that
// cannot be counted here. Each group has a stream of its own, so that its calls overlap with
// computing. A call returns when the GPU is done, so that tensors may be reused, as with every
// backend; an asynchronous call does so on the group's thread.
#include "colossal/comm/nccl.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <algorithm>
#include <map>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/comm/gloo.h"
#include "colossal/comm/gpus.h"
#include "colossal/comm/group_impl.h"
#include "colossal/comm/law.h"
#include "colossal/comm/open_backends.h"

namespace colossal::comm {
namespace {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

bool even(Counts counts) {
  return std::all_of(counts.begin(), counts.end(), [&](int64_t c) { return c == counts[0]; });
}

std::vector<at::Tensor> parts_of(const at::Tensor& full, Counts counts) {
  return full.split_with_sizes(at::IntArrayRef(counts.data(), counts.size()));
}

class NcclBackend final : public Backend {
 public:
  NcclBackend(Membership membership, std::shared_ptr<Ledger> ledger,
              std::chrono::milliseconds timeout, at::Device device,
              c10::intrusive_ptr<c10d::ProcessGroupNCCL> nccl)
      : Backend(std::move(membership), std::move(ledger), timeout),
        device_(device),
        nccl_(std::move(nccl)),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device.index())) {}

  at::Device device() const override { return device_; }
  void before_call() override { c10::cuda::getCurrentCUDAStream(device_.index()).synchronize(); }
  void close(const std::string&) override { nccl_->abort(); }

  void all_reduce(const Call& call, const at::Tensor& tensor) override {
    run([&] {
      std::vector<at::Tensor> tensors{tensor};
      return nccl_->allreduce(tensors);
    });
    book_wire(call, law::all_reduce(tensor.numel(), size(), rank(), tensor.element_size()));
  }

  void reduce_scatter(const Call& call, const at::Tensor& full, const at::Tensor& part,
                      Counts counts) override {
    const at::NoGradGuard no_grad;
    if (even(counts) && full.scalar_type() == part.scalar_type()) {
      run([&] {
        at::Tensor input = full;
        at::Tensor output = part;
        return nccl_->_reduce_scatter_base(output, input);
      });
    } else {
      sum_received(full, part, counts);
    }
    book_wire(call, law::reduce_scatter(counts, rank(), full.element_size()));
  }

  void all_gather(const Call& call, const at::Tensor& full, Counts counts) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> parts = parts_of(full, counts);
    run([&] {
      if (even(counts)) {
        at::Tensor output = full;
        return nccl_->_allgather_base(output, parts[rank()]);
      }
      std::vector<std::vector<at::Tensor>> outputs{parts};
      std::vector<at::Tensor> inputs{parts[rank()]};
      return nccl_->allgather(outputs, inputs);
    });
    book_wire(call, law::all_gather(counts, rank(), full.element_size()));
  }

  void all_to_all(const Call& call, const at::Tensor& send, Counts send_counts,
                  const at::Tensor& receive, Counts receive_counts) override {
    exchange(send, send_counts, receive, receive_counts);
    book_wire(call, law::all_to_all(send_counts, rank(), send.element_size()));
  }

  void rotate(const Call& call, const at::Tensor& send, const at::Tensor& receive) override {
    std::vector<int64_t> send_counts(size()), receive_counts(size());
    send_counts[(rank() + 1) % size()] = send.numel();
    receive_counts[(rank() + size() - 1) % size()] = receive.numel();
    exchange(send, send_counts, receive, receive_counts);
    book_wire(call, static_cast<int64_t>(send.nbytes()));
  }

  void broadcast(const Call& call, const at::Tensor& tensor, int root) override {
    run([&] {
      std::vector<at::Tensor> tensors{tensor};
      c10d::BroadcastOptions options;
      options.rootRank = root;
      return nccl_->broadcast(tensors, options);
    });
    book_wire(call, law::broadcast(tensor.numel(), size(), rank(), root, tensor.element_size()));
  }

  void send(const Call& call, const at::Tensor& tensor, int to) override {
    run([&] {
      std::vector<at::Tensor> tensors{tensor};
      return nccl_->send(tensors, to, 0);
    });
    book_wire(call, call.bytes);
  }

  void receive(const Call&, const at::Tensor& tensor, int from) override {
    run([&] {
      std::vector<at::Tensor> tensors{tensor};
      return nccl_->recv(tensors, from, 0);
    });
  }

  void barrier(const Call&) override {
    run([&] { return nccl_->barrier(); });
  }

 private:
  template <typename Start>
  void run(const Start& start) {
    const c10::cuda::CUDAStreamGuard on_stream(stream_);
    const Deadline deadline = new_deadline();
    try {
      start()->wait();
      stream_.synchronize();
    } catch (const std::exception& error) {
      if (deadline.passed()) throw deadline.failure(reason_of(error));
      throw CallFailure(std::string("failed: ") + reason_of(error));
    }
  }

  void exchange(at::Tensor send, Counts send_counts, at::Tensor receive, Counts receive_counts) {
    std::vector<int64_t> in(send_counts.begin(), send_counts.end());
    std::vector<int64_t> out(receive_counts.begin(), receive_counts.end());
    run([&] { return nccl_->alltoall_base(receive, send, out, in); });
  }

  // Sends each rank's part to it directly. Each rank sums the parts in rank order.
  void sum_received(const at::Tensor& full, const at::Tensor& part, Counts counts) {
    const std::vector<int64_t> own(size(), counts[rank()]);
    const at::Tensor received = at::empty({size() * counts[rank()]}, full.options());
    exchange(full, counts, received, own);
    const c10::cuda::CUDAStreamGuard on_stream(stream_);
    const bool wide =
        at::isIntegralType(full.scalar_type(), false) || full.scalar_type() == at::kDouble;
    const at::ScalarType type = wide ? full.scalar_type() : at::kFloat;
    const std::vector<at::Tensor> parts = parts_of(received, own);
    at::Tensor sum = parts[0].to(type, false, /*copy=*/true);
    for (int source = 1; source < size(); ++source) sum.add_(parts[source].to(type));
    part.copy_(sum);
    stream_.synchronize();
  }

  at::Device device_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> nccl_;
  c10::cuda::CUDAStream stream_;  // not the stream that computes, so that both run at once
};

class NcclWorld final : public World {
 public:
  NcclWorld(const Rendezvous& rendezvous, StorePointer store, int device,
            std::chrono::milliseconds timeout)
      : rank_(rendezvous.rank),
        size_(rendezvous.size),
        device_(at::kCUDA, static_cast<c10::DeviceIndex>(device)),
        timeout_(timeout),
        store_(std::move(store)),
        of_hosts_(gloo_world(rendezvous, c10::make_intrusive<c10d::PrefixStore>("host", store_),
                             timeout, ledger_)) {
    c10::cuda::set_device(device_.index());  // where this thread allocates
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* backend() const override { return "nccl"; }
  c10::Device device() const override { return device_; }

  Group group(const std::string& axis, const std::vector<int>& ranks) override {
    const Membership membership = membership_of(*this, axis, ranks);
    return make_group(backend(), ledger_, membership, [&] { return make_backend(membership); });
  }
  // Over TCP (Gloo), for tensors on the host.
  Group host_group(const std::string& axis, const std::vector<int>& ranks) override {
    return of_hosts_->group(axis, ranks);
  }

  void abort(const std::string& why) override {
    of_hosts_->abort(why);
    backends_.abort(why);
  }

 private:
  std::shared_ptr<Backend> make_backend(const Membership& membership) {
    auto store =
        c10::make_intrusive<c10d::PrefixStore>("group/" + backends_.next_name(membership), store_);
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = timeout_;
    const c10::cuda::CUDAGuard on_device(device_.index());
    auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, membership.rank,
                                                            membership.size(), options);
    auto backend =
        std::make_shared<NcclBackend>(membership, ledger_, timeout_, device_, std::move(nccl));
    backends_.add(backend);
    return backend;
  }

  int rank_;
  int size_;
  at::Device device_;
  std::chrono::milliseconds timeout_;
  StorePointer store_;
  std::unique_ptr<World> of_hosts_;
  OpenBackends backends_;
};

}  // namespace

std::unique_ptr<World> nccl_world(const Rendezvous& rendezvous, StorePointer store, int device,
                                  std::chrono::milliseconds timeout) {
  if (device >= num_gpus()) {
    throw ConfigError(
        fmt::format("backend \"nccl\": rank {} is number {} on its host, which has only {} GPUs; "
                    "start fewer ranks or use backend \"gloo\"",
                    rendezvous.rank, device, num_gpus()));
  }
  return std::make_unique<NcclWorld>(rendezvous, std::move(store), device, timeout);
}

}  // namespace colossal::comm
