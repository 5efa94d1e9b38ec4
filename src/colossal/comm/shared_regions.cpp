#include "colossal/comm/shared_regions.h"

#include <iterator>
#include <utility>

namespace colossal::comm {

// What a tensor's storage owns, so that the mapping lives as long as the storage.
struct SharedRegions::Held {
  std::shared_ptr<SharedRegions> regions;
  SharedMemory memory;
  const std::byte* own;

  static void release(void* context) {
    const std::unique_ptr<Held> held(static_cast<Held*>(context));
    const std::lock_guard lock(held->regions->mutex_);
    held->regions->regions_.erase(held->own);
  }
};

int64_t SharedRegions::stride_for(int64_t bytes) {
  constexpr int64_t kPage = 4096;
  return (bytes + kPage - 1) / kPage * kPage;
}

c10::DataPtr SharedRegions::add(SharedMemory memory, int64_t stride, int rank) {
  std::byte* const begin = memory.data();
  std::byte* const own = begin + rank * stride;
  auto held = std::make_unique<Held>(shared_from_this(), std::move(memory), own);
  const std::lock_guard lock(mutex_);
  regions_[own] = {.place = {.region = ++made_}, .memory = begin, .stride = stride};
  return {own, held.release(), Held::release, at::kCPU};
}

std::optional<SharedRegions::Found> SharedRegions::find(const at::Tensor& tensor) const {
  const auto* const begin = static_cast<const std::byte*>(tensor.const_data_ptr());
  const std::lock_guard lock(mutex_);
  const auto next = regions_.upper_bound(begin);
  if (next == regions_.begin()) return {};
  const auto& [own, region] = *std::prev(next);
  const int64_t offset = begin - own;
  if (offset >= region.stride) return {};
  Found found = region;
  found.place.offset = offset;
  return found;
}

}  // namespace colossal::comm
