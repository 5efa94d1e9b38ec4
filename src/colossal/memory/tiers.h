// The tiers in which tensors are stored between uses: the device, the host's memory, or NVMe (S.
// Rajbhandari et al. 2021, "ZeRO-Infinity"). TierPools holds a rank's memory in the host and NVMe
// tiers. If the device is a CPU, device and host are two pools of one memory; bytes that move
// between them are still copied and counted.
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
#include "colossal/memory/copy_streams.h"
#include "colossal/memory/memory_ledger.h"

namespace colossal::memory {

enum class Tier : uint8_t { device, host, nvme };
const char* tier_name(Tier tier);  // the enumerator's name, such as "host"

// The fractions, from 0 to 1, of the bytes of one kind of tensors that are stored on the host and
// on NVMe. The rest is on the device.
struct TierShares {
  double host = 0;
  double nvme = 0;

  bool all_on_device() const { return host == 0 && nvme == 0; }
  // Returns the tier that stores bytes [begin, end) of `total` bytes of a kind. The first bytes of
  // a kind are on the device, the next on the host, the last on NVMe. A range is stored in one
  // tier: that of its middle byte.
  Tier tier_of(int64_t begin, int64_t end, int64_t total) const;
};

// Where a rank stores its tensors, by kind.
struct Tiers {
  TierShares parameters, gradients, optimizer, activations;
  std::string nvme_path;  // folder for the files on NVMe; empty if NVMe is not used

  // Returns whether any kind has a share in `tier`, host or NVMe.
  bool uses(Tier tier) const;
  // Returns the shares of a kind: parameters, gradients, optimizer or activations. Throws
  // InternalError for other kinds.
  TierShares& of(MemoryKind kind);
  const TierShares& of(MemoryKind kind) const;
};

// The kinds that may be stored off the device.
inline constexpr MemoryKind kTieredKinds[] = {MemoryKind::parameters, MemoryKind::gradients,
                                              MemoryKind::optimizer, MemoryKind::activations};
// The tiers other than the device.
inline constexpr Tier kTiersOffDevice[] = {Tier::host, Tier::nvme};

// Traffic of a tier other than the device.
struct TierTraffic {
  int64_t to = 0;    // bytes moved into the tier
  int64_t from = 0;  // bytes moved out of the tier
  bool operator==(const TierTraffic&) const = default;
};

// A rank's memory in the tiers other than the device, and the counts of the bytes there. Not
// thread-safe, except that host tensors may be released on any thread, even after this is
// destroyed.
class TierPools {
 public:
  // device: the rank's device; meta for a dry run. nvme_path: folder for the files on NVMe;
  // empty if NVMe is not used.
  TierPools(at::Device device, std::string nvme_path);

  at::Device device() const { return device_; }

  // Returns a tensor in host memory, [numel], with arbitrary contents, pinned if the device is a
  // GPU. The address and the size of its memory are multiples of io::kSwapBlock. Returns a meta
  // tensor if the device is meta. Throws IoError if the memory cannot be allocated.
  at::Tensor host_tensor(int64_t numel, at::ScalarType type);
  // Returns the largest number of bytes of host memory in use at once since construction. Released
  // memory is kept for reuse, but never so much that both together exceed this.
  int64_t host_peak_bytes() const;

  // Copies between the device and host memory.
  CopyStreams& copies() { return copies_; }

  // Reserves a region of the NVMe file, and returns the region's offset in bytes. Reserve all
  // regions before open_swap().
  int64_t reserve_swap(int64_t bytes);
  // Creates the NVMe file, if any region is reserved and the device is not meta. Throws IoError.
  void open_swap();
  // The NVMe file. Only after open_swap() has created it.
  io::SwapFile& swap() { return *swap_; }
  // Files on NVMe for regions whose sizes are not known before open_swap().
  io::SwapSpace& swap_space() { return swap_space_; }

  // Traffic since construction, by tier and kind; an entry that is missing is 0.
  using Traffic = std::map<std::pair<Tier, MemoryKind>, TierTraffic>;
  // Add `bytes` to the counts of traffic(). Whoever moves bytes calls these.
  void count_to(Tier tier, MemoryKind kind, int64_t bytes) { traffic_[{tier, kind}].to += bytes; }
  void count_from(Tier tier, MemoryKind kind, int64_t bytes) {
    traffic_[{tier, kind}].from += bytes;
  }
  const Traffic& traffic() const { return traffic_; }

  // Adds `bytes` to the count of bytes stored in a tier other than the device; negative if they are
  // no longer stored there. Not called for temporary copies on the host, during a transfer or an
  // update.
  void count_at_rest(Tier tier, MemoryKind kind, int64_t bytes);
  // Returns the bytes by kind stored in a tier other than the device, at the moment since the last
  // reset_peaks() when their sum was largest.
  const BytesByKind& at_rest(Tier tier) const { return resting_.at(tier).at_peak; }
  void reset_peaks();  // at_rest() begins anew from the bytes stored now

 private:
  struct HostBooks;  // the blocks of host memory, shared with the tensors that use them
  struct Resting {
    BytesByKind live, at_peak;  // stored now; stored at the peak
  };

  at::Device device_;
  std::string nvme_path_;
  std::shared_ptr<HostBooks> host_;
  CopyStreams copies_;
  int64_t swap_bytes_ = 0;              // sum of the reserved regions
  std::unique_ptr<io::SwapFile> swap_;  // null before open_swap(), or if nothing is reserved
  io::SwapSpace swap_space_;
  Traffic traffic_;
  std::map<Tier, Resting> resting_{{Tier::host, {}}, {Tier::nvme, {}}};
};

}  // namespace colossal::memory
