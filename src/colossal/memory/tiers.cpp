#include "colossal/memory/tiers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "colossal/base/error.h"

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

// Mapped memory: freed, it goes back to the system at once, and LibTorch's allocators do not see
// it.
struct TierPools::HostBooks {
  // Blocks that wait to be used again, so that the system need not make new pages each time.
  static constexpr size_t kMaxFree = 16;

  ~HostBooks() {
    for (const Block& block : free) unmap(block);
  }

  struct Block {
    void* memory = nullptr;
    int64_t bytes = 0;
  };

  Block take(int64_t size) {
    const std::lock_guard lock(mutex);
    const auto found = std::ranges::find(free, size, &Block::bytes);
    if (found != free.end()) {
      const Block block = *found;
      free.erase(found);
      return block;
    }
    void* const memory = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      throw IoError(fmt::format("host memory: {} bytes more than the {} in use: {}", size, bytes,
                                std::generic_category().message(errno)));
    }
    add(size);
    return {memory, size};
  }

  void give(const Block& block) {
    const std::lock_guard lock(mutex);
    free.push_back(block);
    if (free.size() <= kMaxFree) return;
    unmap(free.front());
    free.erase(free.begin());
  }

  // Call with the mutex held, or alone.
  void unmap(const Block& block) {
    ::munmap(block.memory, static_cast<size_t>(block.bytes));
    add(-block.bytes);
  }
  void add(int64_t more) {
    bytes += more;
    peak = std::max(peak, bytes);
  }

  std::mutex mutex;
  int64_t bytes = 0, peak = 0;
  std::vector<Block> free;
};

TierPools::TierPools(at::Device device, std::string nvme_path)
    : device_(device),
      nvme_path_(std::move(nvme_path)),
      host_(std::make_shared<HostBooks>()),
      swap_space_(nvme_path_) {}

at::Tensor TierPools::host_tensor(int64_t numel, at::ScalarType type) {
  const auto options = at::TensorOptions().dtype(type);
  if (device_.is_meta()) {
    const MemoryScope uncounted;  // these are no tensors of the device
    return at::empty({numel}, options.device(at::kMeta));
  }
  const HostBooks::Block block = host_->take(io::whole_swap_blocks(
      std::max<int64_t>(1, numel) * static_cast<int64_t>(c10::elementSize(type))));
  return at::from_blob(
      block.memory, {numel}, [books = host_, block](void*) { books->give(block); }, options);
}

int64_t TierPools::host_bytes() const {
  const std::lock_guard lock(host_->mutex);
  return host_->bytes;
}

int64_t TierPools::host_peak_bytes() const {
  const std::lock_guard lock(host_->mutex);
  return host_->peak;
}

int64_t TierPools::reserve_swap(int64_t bytes) {
  COLOSSAL_CHECK(!swap_, "{} bytes are reserved after {} were opened", bytes, swap_bytes_);
  return std::exchange(swap_bytes_, swap_bytes_ + io::whole_swap_blocks(bytes));
}

void TierPools::open_swap() {
  if (swap_bytes_ == 0 || device_.is_meta()) return;
  swap_ = std::make_unique<io::SwapFile>(nvme_path_, swap_bytes_);
}

}  // namespace colossal::memory
