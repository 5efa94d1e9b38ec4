// The tiers in which tensors are stored between uses: the device, the host's memory, or NVMe (S.
// Rajbhandari et al. 2021, "ZeRO-Infinity"). On a CPU, device and host are two pools of the same
// memory; bytes that move between them are still copied and counted.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "colossal/io/swap_file.h"
#include "colossal/io/swap_space.h"
#include "colossal/memory/memory_ledger.h"

namespace colossal::memory {

enum class Tier : uint8_t { device, host, nvme };
const char* tier_name(Tier tier);

// The fraction of the bytes of one kind of tensors that is stored in each tier; the rest is on the
// device.
struct TierShares {
  double host = 0;
  double nvme = 0;

  bool all_on_device() const { return host == 0 && nvme == 0; }
  // Returns the one tier that stores bytes [begin, end) of a kind with `total` bytes: that of the
  // middle of the range. The first bytes of a kind are on the device, the next on the host, the
  // last on NVMe.
  Tier tier_of(int64_t begin, int64_t end, int64_t total) const;
};

struct Tiers {
  TierShares parameters, gradients, optimizer, activations;
  std::string nvme_path;  // a folder

  bool uses(Tier tier) const;
  // Returns the shares of a kind, which must be in kTieredKinds.
  TierShares& of(MemoryKind kind);
  const TierShares& of(MemoryKind kind) const;
};

// The kinds that may be stored off the device.
inline constexpr MemoryKind kTieredKinds[] = {MemoryKind::parameters, MemoryKind::gradients,
                                              MemoryKind::optimizer, MemoryKind::activations};
// The tiers other than the device.
inline constexpr Tier kTiersOffDevice[] = {Tier::host, Tier::nvme};

// Bytes moved into (to) and out of (from) a tier other than the device.
struct TierTraffic {
  int64_t to = 0;
  int64_t from = 0;
  bool operator==(const TierTraffic&) const = default;
};

// A rank's memory off the device. Not thread-safe, except that host tensors may be released on any
// thread, even after this is destroyed.
class TierPools {
 public:
  TierPools(at::Device device, std::string nvme_path);

  at::Device device() const { return device_; }

  // Returns a tensor in host memory, [numel], with arbitrary contents. The address and the size of
  // its memory are multiples of io::kSwapBlock. Returns a meta tensor if the device is meta. Throws
  // IoError if the memory cannot be allocated.
  at::Tensor host_tensor(int64_t numel, at::ScalarType type);
  // Peak of the host memory taken, including released memory that is kept for reuse.
  int64_t host_peak_bytes() const;

  // Reserves a region of the NVMe file and returns its offset in bytes. All regions must be
  // reserved before open_swap(), which creates the file if any is (none if the device is meta).
  int64_t reserve_swap(int64_t bytes);
  void open_swap();
  io::SwapFile& swap() { return *swap_; }
  // For regions whose sizes are not known before open_swap(); in files of its own.
  io::SwapSpace& swap_space() { return swap_space_; }

  using Traffic = std::map<std::pair<Tier, MemoryKind>, TierTraffic>;
  void count_to(Tier tier, MemoryKind kind, int64_t bytes) { traffic_[{tier, kind}].to += bytes; }
  void count_from(Tier tier, MemoryKind kind, int64_t bytes) {
    traffic_[{tier, kind}].from += bytes;
  }
  const Traffic& traffic() const { return traffic_; }

  // Adds to the count of bytes stored in a tier off the device; bytes < 0: they are no longer
  // stored there. Not for temporary copies on the host, during a transfer or an update.
  void count_at_rest(Tier tier, MemoryKind kind, int64_t bytes);
  // Bytes stored in a tier off the device when their total was largest since the last
  // reset_peaks().
  const BytesByKind& at_rest(Tier tier) const { return resting_.at(tier).at_peak; }
  void reset_peaks();

 private:
  struct HostBooks;
  struct Resting {
    BytesByKind live, at_peak;
  };

  at::Device device_;
  std::string nvme_path_;
  std::shared_ptr<HostBooks> host_;
  int64_t swap_bytes_ = 0;
  std::unique_ptr<io::SwapFile> swap_;
  io::SwapSpace swap_space_;
  Traffic traffic_;
  std::map<Tier, Resting> resting_{{Tier::host, {}}, {Tier::nvme, {}}};
};

}  // namespace colossal::memory
