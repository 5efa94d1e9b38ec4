// libnccl.so.2 for emulated GPUs: NCCL's C functions, of which comm/nccl_interface.h tells what
// they take. Like NCCL's, they check nothing that another rank does; kernels of calls that do not
// match wait for ever.
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "colossal/comm/nccl_interface.h"
#include "tests/support/emulated_gpu/current.h"
#include "tests/support/emulated_gpu/memory.h"
#include "tests/support/fake_nccl/kernel.h"

using colossal::comm::nccl::Config;
using colossal::comm::nccl::Reduction;
using colossal::comm::nccl::Result;
using colossal::comm::nccl::Type;
using colossal::comm::nccl::UniqueId;
using colossal::emulated_gpu::Bytes;
using colossal::fake_nccl::Communicator;
using colossal::fake_nccl::Header;
using colossal::fake_nccl::Kernel;
using colossal::fake_nccl::Message;

struct ncclComm {
  std::shared_ptr<Communicator> shared;
};

namespace colossal::fake_nccl {
namespace {

enum Operation : int { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kMessage };

size_t size_of(Type type) {
  switch (type) {
    case Type::uint8:
      return 1;
    case Type::float16:
    case Type::bfloat16:
      return 2;
    case Type::float32:
      return 4;
    case Type::int64:
    case Type::float64:
      return 8;
  }
  return 0;
}

// to <- the sum of the terms, in their order, as Sum.
template <typename Element, typename Sum>
void sum_as(const std::vector<const std::byte*>& terms, size_t count, std::byte* to) {
  for (size_t i = 0; i < count; ++i) {
    Sum sum = 0;
    for (size_t term = 0; term < terms.size(); ++term) {
      const auto value = static_cast<Sum>(reinterpret_cast<const Element*>(terms[term])[i]);
      sum = term == 0 ? value : sum + value;
    }
    reinterpret_cast<Element*>(to)[i] = static_cast<Element>(sum);
  }
}

void sum(const std::vector<const std::byte*>& terms, size_t count, Type type, std::byte* to) {
  switch (type) {
    case Type::float32:
      return sum_as<float, float>(terms, count, to);
    case Type::float64:
      return sum_as<double, double>(terms, count, to);
    case Type::bfloat16:
      return sum_as<c10::BFloat16, float>(terms, count, to);
    case Type::float16:
      return sum_as<c10::Half, float>(terms, count, to);
    case Type::int64:
      return sum_as<int64_t, int64_t>(terms, count, to);
    case Type::uint8:
      return sum_as<uint8_t, uint8_t>(terms, count, to);
  }
}

std::byte* of_kernels(const void* memory) {
  return static_cast<std::byte*>(emulated_gpu::for_kernels(memory));
}

Bytes bytes_at(const void* memory, size_t size) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  return {begin, begin + size};
}

// The calls between ncclGroupStart() and ncclGroupEnd() of this thread.
thread_local int depth = 0;
thread_local std::map<std::pair<Communicator*, emulated_gpu::Stream*>, Kernel> group;
thread_local std::map<Communicator*, std::shared_ptr<Communicator>> of_group;

thread_local std::vector<std::shared_ptr<Communicator>> aborted_in_group;

// As NCCL does, when it need not block.
Result launch_group() {
  constexpr int kTimesInProgress = 2;
  for (auto& [where, kernel] : group) {
    of_group.at(where.first)->busy = kTimesInProgress;
    launch(std::move(kernel), of_group.at(where.first), *where.second);
  }
  const bool any = !group.empty();
  group.clear();
  of_group.clear();
  return any ? Result::in_progress : Result::success;
}

// Waits for the kernels of communicators that are aborted, as NCCL does.
void reclaim() {
  for (const auto& communicator : aborted_in_group) {
    while (communicator->ended < communicator->launched) usleep(100);
  }
  aborted_in_group.clear();
}

Result call(Kernel kernel, ncclComm* communicator, void* stream) {
  Communicator* const shared = communicator->shared.get();
  of_group[shared] = communicator->shared;
  group[{shared, static_cast<emulated_gpu::Stream*>(stream)}].add(std::move(kernel));
  return depth == 0 ? launch_group() : Result::success;
}

// Sends `count` elements to each rank from its part of `from`, or the same to all, and sums what
// comes from all ranks.
Kernel reduction(Operation operation, const void* from, void* to, size_t count, Type type,
                 const Communicator& communicator) {
  const size_t bytes = count * size_of(type);
  const size_t step = operation == kReduceScatter ? bytes : 0;
  auto received = std::make_shared<std::vector<std::byte>>(bytes * communicator.ranks);
  const Header header{operation, static_cast<int>(type), bytes};
  Kernel kernel;
  kernel.reads = {bytes_at(from, step > 0 ? bytes * communicator.ranks : bytes)};
  kernel.writes = {bytes_at(to, bytes)};
  for (int peer = 0; peer < communicator.ranks; ++peer) {
    if (peer == communicator.rank) continue;
    kernel.sends.push_back({peer, of_kernels(from) + step * peer, header});
    kernel.receives.push_back({peer, received->data() + bytes * peer, header});
  }
  kernel.finish = [=, own = of_kernels(from) + step * communicator.rank, into = of_kernels(to),
                   rank = communicator.rank, ranks = communicator.ranks] {
    std::vector<const std::byte*> terms;
    for (int term = 0; term < ranks; ++term) {
      terms.push_back(term == rank ? own : received->data() + bytes * term);
    }
    sum(terms, count, type, into);
  };
  return kernel;
}

}  // namespace
}  // namespace colossal::fake_nccl

using namespace colossal::fake_nccl;

extern "C" {

Result ncclGetVersion(int* version) {
  *version = 22907;
  return Result::success;
}

Result ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> made{0};
  const std::string name =
      "/colossal-fake-nccl-" + std::to_string(getpid()) + "-" + std::to_string(made++);
  std::memcpy(id->bytes.data(), name.c_str(), name.size() + 1);
  return Result::success;
}

Result ncclCommInitRankConfig(ncclComm** made, int ranks, UniqueId id, int rank, Config* config) {
  if (config->blocking != 0) return Result::invalid_argument;  // as our own code wants it
  *made = new ncclComm{std::make_shared<Communicator>(id.bytes.data(), rank, ranks,
                                                      colossal::emulated_gpu::current_device())};
  return Result::in_progress;
}

Result ncclCommFinalize(ncclComm*) {
  return Result::in_progress;
}

Result ncclCommDestroy(ncclComm* communicator) {
  delete communicator;
  return Result::success;
}

Result ncclCommAbort(ncclComm* communicator) {
  communicator->shared->aborted = true;
  aborted_in_group.push_back(communicator->shared);
  if (depth == 0) reclaim();
  delete communicator;
  return Result::success;
}

Result ncclCommGetAsyncError(ncclComm* communicator, Result* error) {
  Communicator& shared = *communicator->shared;
  *error = static_cast<Result>(shared.error.load());
  if (*error != Result::success) return Result::success;
  const bool is_busy = shared.busy > 0 && shared.busy-- > 0;
  if (is_busy || !shared.pipes.all_have_come()) *error = Result::in_progress;
  return Result::success;
}

const char* ncclGetErrorString(Result result) {
  switch (result) {
    case Result::system_error:
      return "unhandled system error";
    case Result::remote_error:
      return "remote process exited or there was a network error";
    default:
      return "an error";
  }
}

const char* ncclGetLastError(ncclComm*) {
  return "";
}

Result ncclGroupStart() {
  ++depth;
  return Result::success;
}

Result ncclGroupEnd() {
  if (--depth > 0) return Result::success;
  reclaim();
  return launch_group();
}

Result ncclAllReduce(const void* from, void* to, size_t count, Type type, Reduction, ncclComm* comm,
                     void* stream) {
  return call(reduction(kAllReduce, from, to, count, type, *comm->shared), comm, stream);
}

Result ncclReduceScatter(const void* from, void* to, size_t count, Type type, Reduction,
                         ncclComm* comm, void* stream) {
  return call(reduction(kReduceScatter, from, to, count, type, *comm->shared), comm, stream);
}

Result ncclAllGather(const void* from, void* to, size_t count, Type type, ncclComm* comm,
                     void* stream) {
  const Communicator& shared = *comm->shared;
  const size_t bytes = count * size_of(type);
  const Header header{kAllGather, static_cast<int>(type), bytes};
  Kernel kernel;
  kernel.reads = {bytes_at(from, bytes)};
  auto* const parts = static_cast<std::byte*>(to);  // the own one is there already, or is written
  const bool is_there = parts + bytes * shared.rank == from;
  for (int part = 0; part < shared.ranks; ++part) {
    if (part == shared.rank && is_there) continue;
    kernel.writes.push_back(bytes_at(parts + bytes * part, bytes));
  }
  for (int peer = 0; peer < shared.ranks; ++peer) {
    if (peer == shared.rank) continue;
    kernel.sends.push_back({peer, of_kernels(from), header});
    kernel.receives.push_back({peer, of_kernels(to) + bytes * peer, header});
  }
  kernel.finish = [=, own = of_kernels(from), place = of_kernels(to) + bytes * shared.rank] {
    if (own != place) std::memcpy(place, own, bytes);
  };
  return call(std::move(kernel), comm, stream);
}

Result ncclBroadcast(const void* from, void* to, size_t count, Type type, int root, ncclComm* comm,
                     void* stream) {
  const Communicator& shared = *comm->shared;
  const size_t bytes = count * size_of(type);
  const Header header{kBroadcast, static_cast<int>(type), bytes};
  Kernel kernel;
  if (shared.rank != root) {
    kernel.writes = {bytes_at(to, bytes)};
    kernel.receives = {{root, of_kernels(to), header}};
    return call(std::move(kernel), comm, stream);
  }
  kernel.reads = {bytes_at(from, bytes)};
  for (int peer = 0; peer < shared.ranks; ++peer) {
    if (peer != root) kernel.sends.push_back({peer, of_kernels(from), header});
  }
  return call(std::move(kernel), comm, stream);
}

Result ncclSend(const void* from, size_t count, Type type, int peer, ncclComm* comm, void* stream) {
  const size_t bytes = count * size_of(type);
  Kernel kernel;
  kernel.reads = {bytes_at(from, bytes)};
  kernel.sends = {{peer, of_kernels(from), {kMessage, static_cast<int>(type), bytes}}};
  return call(std::move(kernel), comm, stream);
}

Result ncclRecv(void* to, size_t count, Type type, int peer, ncclComm* comm, void* stream) {
  const size_t bytes = count * size_of(type);
  Kernel kernel;
  kernel.writes = {bytes_at(to, bytes)};
  kernel.receives = {{peer, of_kernels(to), {kMessage, static_cast<int>(type), bytes}}};
  return call(std::move(kernel), comm, stream);
}

}  // extern "C"
