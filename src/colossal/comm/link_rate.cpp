#include "colossal/comm/link_rate.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/comm/world.h"

namespace colossal::comm {
namespace {

using Clock = std::chrono::steady_clock;
using Worlds = std::vector<std::unique_ptr<World>>;

constexpr int64_t kSmall = 4 << 10, kLarge = 16 << 20;
constexpr int kRepeats = 40;

// Returns the seconds of an all-reduce of `bytes` bytes of fp32: the fastest of kRepeats, because
// other programs slow down some of them.
double all_reduce_seconds(Worlds& worlds, int64_t bytes) {
  double best = 1e9;
  std::vector<std::jthread> threads;
  for (auto& world : worlds) {
    threads.emplace_back([&world, &best, bytes] {
      at::set_num_threads(1);
      const Group group = world->group("dp", {0, 1});
      const at::Tensor tensor = at::zeros({bytes / 4}, at::kFloat);
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        barrier(group);
        const Clock::time_point start = Clock::now();
        all_reduce(tensor, group, Reason::gradient);
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
        if (group.rank() == 0) best = std::min(best, seconds);
      }
    });
  }
  threads.clear();
  return best;
}

// Returns the worlds of two ranks, which are threads but communicate as processes do.
Worlds process_worlds(const std::string& backend, std::chrono::milliseconds timeout) {
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof(address);
  const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::bind(listening, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(listening, 8) != 0 ||
      ::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw IoError("no socket can listen on 127.0.0.1");
  }
  std::vector<std::future<std::unique_ptr<World>>> coming;
  for (int rank = 0; rank < 2; ++rank) {
    coming.push_back(std::async(std::launch::async, [=] {
      return connect({.rank = rank,
                      .size = 2,
                      .port = ntohs(address.sin_port),
                      .listen_fd = rank == 0 ? listening : -1},
                     {.backend = backend, .device = "cpu"}, timeout);
    }));
  }
  Worlds worlds;
  for (auto& world : coming) worlds.push_back(world.get());
  return worlds;
}

}  // namespace

LinkRate measure_link(const std::string& backend, std::chrono::milliseconds timeout) {
  Worlds worlds = backend == "local" ? local_worlds(2, timeout) : process_worlds(backend, timeout);
  const double latency = all_reduce_seconds(worlds, kSmall);
  // Between two ranks, each sends half of the tensor twice.
  return {latency, kLarge / all_reduce_seconds(worlds, kLarge)};
}

}  // namespace colossal::comm
