#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>

#include "colossal/base/error.h"
#include "colossal/comm/agreement.h"
#include "colossal/comm/gloo.h"
#include "colossal/comm/gpus.h"
#include "colossal/comm/nccl.h"
#include "colossal/comm/shared_memory.h"
#include "colossal/comm/shm.h"
#include "colossal/comm/staged.h"
#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::comm {
namespace {

void check_kind(const WorldKind& kind) {
  const auto check = [](const char* name, const std::string& value,
                        std::initializer_list<const char*> known) {
    for (const char* choice : known) {
      if (value == choice) return;
    }
    throw ConfigError(fmt::format("no {} \"{}\" for ranks; there are \"{}\"", name, value,
                                  fmt::join(known, "\", \"")));
  };
  check("backend", kind.backend, {"auto", "shm", "gloo", "nccl"});
  check("device", kind.device, {"auto", "cpu", "gpu"});
  if (kind.backend == "nccl" && kind.device == "cpu") {
    throw ConfigError(
        "backend \"nccl\" is for ranks on GPUs, but device is \"cpu\"; use device \"gpu\", or "
        "backend "
        "\"auto\"");
  }
}

void require_gpu(const WorldKind& kind) {
  if (num_gpus() > 0) return;
  const bool by_device = kind.device == "gpu";
  throw ConfigError(
      fmt::format("{} \"{}\": no GPU is visible, or this build has no GPU support (configure with "
                  "-DCOLOSSAL_CUDA=ON); {} computes on the CPU",
                  by_device ? "device" : "backend", by_device ? "gpu" : "nccl",
                  by_device ? "device \"cpu\"" : "backend \"auto\""));
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

// Returns why the ranks cannot compute on GPUs, or "". All ranks see the same arrivals.
std::string why_not_on_gpus(const std::vector<Arrival>& arrivals, const WorldKind& kind,
                            bool own_gpus) {
  for (size_t rank = 0; rank < arrivals.size(); ++rank) {
    if (arrivals[rank].gpus > 0) continue;
    return fmt::format(
        "{}: rank {} can use no GPU: none is visible there, or its build has no GPU support "
        "(configure with -DCOLOSSAL_CUDA=ON)",
        kind.device == "gpu" ? "device \"gpu\"" : "backend \"nccl\"", rank);
  }
  if (kind.backend != "nccl" || own_gpus) return "";
  return "backend \"nccl\": a host has more ranks than GPUs, and NCCL needs a GPU for each; start "
         "fewer ranks, or use backend \"auto\" with device \"gpu\"";
}

// The world of a rank that communicates through host memory.
std::unique_ptr<World> host_world(const Rendezvous& rendezvous, const std::string& backend,
                                  const std::vector<Arrival>& arrivals, StorePointer store,
                                  std::chrono::milliseconds timeout) {
  if (backend == "gloo") return gloo_world(rendezvous, std::move(store), timeout);
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

}  // namespace

bool WorldKind::computes_on_gpus(bool own_gpus) const {
  if (device != "auto") return device == "gpu";
  return backend == "nccl" || (backend == "auto" && own_gpus);
}

c10::Device device_alone(const WorldKind& kind) {
  check_kind(kind);
  if (!kind.computes_on_gpus(num_gpus() > 0)) return c10::kCPU;
  require_gpu(kind);
  return {c10::kCUDA, 0};
}

std::unique_ptr<World> connect(const Rendezvous& rendezvous, const WorldKind& kind,
                               std::chrono::milliseconds timeout, const Settings& settings) {
  check_kind(kind);
  check_rendezvous(rendezvous);
  StorePointer store = open_store(rendezvous, timeout);
  const std::vector<Arrival> arrivals = meet_alike(*store, rendezvous, timeout, settings);
  const bool own_gpus = each_rank_has_a_gpu(arrivals);
  const bool on_gpus = kind.computes_on_gpus(own_gpus);
  if (on_gpus) {
    const std::string why_not = why_not_on_gpus(arrivals, kind, own_gpus);
    if (!why_not.empty()) {
      refuse_together(*store, rendezvous, why_not, std::min(timeout, kTimeToRead));
    }
  }
  const int local = local_rank(arrivals, rendezvous.rank);
  if (kind.backend == "nccl" || (kind.backend == "auto" && on_gpus && own_gpus)) {
    return nccl_world(host_world(rendezvous, "auto", arrivals, store, timeout), store, local,
                      timeout);
  }
  std::unique_ptr<World> world =
      host_world(rendezvous, kind.backend, arrivals, std::move(store), timeout);
  if (!on_gpus) return world;
  return staged_world(std::move(world),
                      {c10::kCUDA, static_cast<c10::DeviceIndex>(local % num_gpus())});
}

}  // namespace colossal::comm
