#include "colossal/io/swap_space.h"

#include <algorithm>
#include <tuple>

namespace colossal::io {
namespace {

constexpr int64_t kFileBytes = int64_t{256} << 20;
// Regions are multiples of the swap file's pieces, so that no piece belongs to two regions.
constexpr int64_t kUnit = int64_t{1} << 20;

}  // namespace

SwapSpace::Region SwapSpace::take(int64_t bytes) {
  bytes = (bytes + kUnit - 1) / kUnit * kUnit;
  auto found =
      std::ranges::find_if(free_, [&](const Region& region) { return region.bytes >= bytes; });
  if (found == free_.end()) {
    const int64_t size = std::max(bytes, kFileBytes);
    files_.push_back(std::make_unique<SwapFile>(directory_, size));
    file_bytes_ += size;
    free_.push_back({files_.back().get(), 0, size});
    found = free_.end() - 1;
  }
  const Region taken{found->file, found->offset, bytes};
  found->offset += bytes;
  found->bytes -= bytes;
  if (found->bytes == 0) free_.erase(found);
  return taken;
}

void SwapSpace::give(const Region& region) {
  const auto order_of = [this](const Region& one) {
    const auto file = std::ranges::find(files_, one.file, &std::unique_ptr<SwapFile>::get);
    return std::tuple(file - files_.begin(), one.offset);
  };
  auto place = std::ranges::find_if(
      free_, [&](const Region& other) { return order_of(other) > order_of(region); });
  place = free_.insert(place, region);
  const auto joins = [](const Region& a, const Region& b) {
    return a.file == b.file && a.offset + a.bytes == b.offset;
  };
  if (place + 1 != free_.end() && joins(*place, *(place + 1))) {
    place->bytes += (place + 1)->bytes;
    free_.erase(place + 1);
  }
  if (place != free_.begin() && joins(*(place - 1), *place)) {
    (place - 1)->bytes += place->bytes;
    free_.erase(place);
  }
}

}  // namespace colossal::io
