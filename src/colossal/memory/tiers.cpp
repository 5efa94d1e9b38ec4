#include "colossal/memory/tiers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <new>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/memory/host_block.h"

namespace colossal::memory {

const char* tier_name(Tier tier) {
  switch (tier) {
    case Tier::device:
      return "device";
    case Tier::host:
      return "host";
    case Tier::nvme:
      return "nvme";
  }
  COLOSSAL_CHECK(false, "unknown tier {}", static_cast<int>(tier));
}

Tier TierShares::tier_of(int64_t begin, int64_t end, int64_t total) const {
  if (all_on_device()) return Tier::device;
  const double middle = static_cast<double>(begin + end) / 2 / static_cast<double>(total);
  if (middle < 1 - host - nvme) return Tier::device;
  return middle < 1 - nvme ? Tier::host : Tier::nvme;
}

bool Tiers::uses(Tier tier) const {
  return std::ranges::any_of(std::array{parameters, gradients, optimizer, activations},
                             [&](const TierShares& shares) {
                               return (tier == Tier::host ? shares.host : shares.nvme) > 0;
                             });
}

TierShares& Tiers::of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::parameters:
      return parameters;
    case MemoryKind::gradients:
      return gradients;
    case MemoryKind::optimizer:
      return optimizer;
    case MemoryKind::activations:
      return activations;
    default:
      COLOSSAL_CHECK(false, "{} rest on the device", memory_kind_name(kind));
  }
}

const TierShares& Tiers::of(MemoryKind kind) const {
  return const_cast<Tiers&>(*this).of(kind);
}

// Host buffers, which LibTorch's allocators do not see.
struct TierPools::HostBooks {
  explicit HostBooks(at::Device to) : device(to) {}

  using Block = std::shared_ptr<HostBlock>;
  static int64_t size_of(const Block& block) { return std::ssize(block->bytes()); }

  Block take(int64_t size) {
    const std::lock_guard lock(mutex);
    const auto found = std::ranges::find(kept, size, &HostBooks::size_of);
    if (found == kept.end()) return make(size);
    Block block = std::move(*found);
    kept.erase(found);
    kept_bytes -= size;
    count_used(size);
    return block;
  }

  void give(Block block) {
    const std::lock_guard lock(mutex);
    used_bytes -= size_of(block);
    kept_bytes += size_of(block);
    kept.push_back(std::move(block));
  }

  Block make(int64_t size) {
    const int64_t used = used_bytes + size, most = std::max(most_used, used);
    while (!kept.empty() && used + kept_bytes > most) {
      kept_bytes -= size_of(kept.front());
      kept.pop_front();
    }
    try {
      Block made = std::make_shared<HostBlock>(size, device);
      count_used(size);
      return made;
    } catch (const std::bad_alloc&) {
      throw IoError(fmt::format("host memory: {} bytes beside the {} in use cannot be allocated",
                                size, used_bytes + kept_bytes));
    }
  }

  void count_used(int64_t size) {
    used_bytes += size;
    most_used = std::max(most_used, used_bytes);
  }

  const at::Device device;
  std::mutex mutex;
  int64_t used_bytes = 0, most_used = 0, kept_bytes = 0;
  // Freed blocks, the oldest first: the system need not provide, and a GPU's driver not pin, pages
  // again in each step. Used and kept blocks together never exceed the most that was used.
  std::deque<Block> kept;
};

TierPools::TierPools(at::Device device, std::string nvme_path)
    : device_(device),
      nvme_path_(std::move(nvme_path)),
      host_(std::make_shared<HostBooks>(device)),
      copies_(device),
      swap_space_(nvme_path_) {}

at::Tensor TierPools::host_tensor(int64_t numel, at::ScalarType type) {
  const auto options = at::TensorOptions().dtype(type);
  if (device_.is_meta()) {
    const MemoryScope uncounted;  // host memory is not counted as the device's
    return at::empty({numel}, options.device(at::kMeta));
  }
  copies_.release_done();
  const HostBooks::Block block = host_->take(io::whole_swap_blocks(
      std::max<int64_t>(1, numel) * static_cast<int64_t>(c10::elementSize(type))));
  return at::from_blob(
      block->bytes().data(), {numel}, [books = host_, block](void*) { books->give(block); },
      options);
}

int64_t TierPools::host_peak_bytes() const {
  const std::lock_guard lock(host_->mutex);
  return host_->most_used;
}

int64_t TierPools::reserve_swap(int64_t bytes) {
  COLOSSAL_CHECK(!swap_, "{} bytes are reserved after {} were opened", bytes, swap_bytes_);
  return std::exchange(swap_bytes_, swap_bytes_ + io::whole_swap_blocks(bytes));
}

void TierPools::open_swap() {
  if (swap_bytes_ == 0 || device_.is_meta()) return;
  swap_ = std::make_unique<io::SwapFile>(nvme_path_, swap_bytes_);
}

void TierPools::count_at_rest(Tier tier, MemoryKind kind, int64_t bytes) {
  Resting& resting = resting_.at(tier);
  resting.live[kind] += bytes;
  if (resting.live.total() > resting.at_peak.total()) resting.at_peak = resting.live;
}

void TierPools::reset_peaks() {
  for (auto& [tier, resting] : resting_) resting.at_peak = resting.live;
}

}  // namespace colossal::memory
