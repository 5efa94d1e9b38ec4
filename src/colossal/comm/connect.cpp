#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/comm/agreement.h"
#include "colossal/comm/gloo.h"
#include "colossal/comm/nccl.h"
#include "colossal/comm/shared_memory.h"
#include "colossal/comm/shm.h"
#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::comm {
namespace {

void check_backend(const std::string& backend) {
  for (const char* known : {"auto", "shm", "gloo", "nccl"}) {
    if (backend == known) return;
  }
  throw ConfigError(fmt::format(
      "no backend \"{}\" between processes: \"auto\", \"shm\", \"gloo\" and \"nccl\" are",
      backend));
}

void check_rendezvous(const Rendezvous& rendezvous) {
  if (rendezvous.rank < 0 || rendezvous.rank >= rendezvous.size) {
    throw ConfigError(
        fmt::format("rank {} of {} ranks: ranks count from 0", rendezvous.rank, rendezvous.size));
  }
  if (rendezvous.port <= 0 || rendezvous.port > 65535) {
    throw ConfigError(fmt::format("rendezvous port {}: must be from 1 to 65535", rendezvous.port));
  }
}

// Returns this rank's index among the ranks of its host.
int local_rank(const std::vector<Arrival>& arrivals, int rank) {
  int place = 0;
  for (int other = 0; other < rank; ++other) place += arrivals[other].host == arrivals[rank].host;
  return place;
}

// Whether each rank has its own GPU. All ranks see the same arrivals, so all decide alike.
bool each_rank_has_a_gpu(const std::vector<Arrival>& arrivals) {
  for (int rank = 0; rank < static_cast<int>(arrivals.size()); ++rank) {
    if (local_rank(arrivals, rank) >= arrivals[rank].gpus) return false;
  }
  return true;
}

// After a difference in settings, rank 0 gives the others this long to read it.
constexpr std::chrono::milliseconds kTimeToRead{10'000};

std::vector<Arrival> meet_alike(c10d::Store& store, const Rendezvous& rendezvous,
                                std::chrono::milliseconds timeout, const Settings& settings) {
  try {
    const Arrival own{.host = host_identity(),
                      .gpus = num_gpus(),
                      .settings = publish_settings(store, rendezvous.rank, settings)};
    const std::vector<Arrival> arrivals = meet_all(store, rendezvous, own, timeout);
    require_agreement(store, rendezvous, arrivals, std::min(timeout, kTimeToRead));
    return arrivals;
  } catch (const c10::Error& error) {
    throw CommError(
        fmt::format("rank {}: the rendezvous failed: {}", rendezvous.rank, reason_of(error)));
  }
}

}  // namespace

c10::Device device_alone(const std::string& backend) {
  check_backend(backend);
  if (backend != "nccl" && (backend != "auto" || num_gpus() == 0)) return c10::kCPU;
  if (num_gpus() == 0) {
    throw ConfigError(
        "backend \"nccl\": no GPU is visible, or this build has no GPU support (configure with "
        "-DCOLOSSAL_CUDA=ON); backend \"auto\" computes on the CPU");
  }
  return {c10::kCUDA, 0};
}

std::unique_ptr<World> connect(const Rendezvous& rendezvous, const std::string& backend,
                               std::chrono::milliseconds timeout, const Settings& settings) {
  check_backend(backend);
  check_rendezvous(rendezvous);
  StorePointer store = open_store(rendezvous, timeout);
  const std::vector<Arrival> arrivals = meet_alike(*store, rendezvous, timeout, settings);
  const bool on_gpus = backend == "nccl" || (backend == "auto" && each_rank_has_a_gpu(arrivals));
  if (backend == "gloo") return gloo_world(rendezvous, std::move(store), timeout);
  if (!on_gpus) {
    std::vector<std::string> hosts;
    for (const Arrival& arrival : arrivals) hosts.push_back(arrival.host);
    const auto other = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const std::string& host) { return host != hosts[0]; });
    if (backend == "shm" && other != hosts.end()) {
      throw ConfigError(fmt::format(
          "backend \"shm\": ranks 0 and {} share no memory, as they are on different hosts (or in "
          "different containers); \"auto\" uses shared memory within a host and Gloo between hosts",
          other - hosts.begin()));
    }
    return shm_world(rendezvous, std::move(store), std::move(hosts), timeout);
  }
  return nccl_world(rendezvous, std::move(store), local_rank(arrivals, rendezvous.rank), timeout);
}

}  // namespace colossal::comm
