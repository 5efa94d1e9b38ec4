// Software prefetching of weights, for kernels that multiply a weight tile by tile, where a tile is
// a few consecutive rows of the weight. A kernel reads the rows of a tile side by side. These are
// several short streams of addresses, which the hardware prefetcher follows far worse than one long
// stream. So the kernel also calls prefetch() for the cache lines of the weight in the order in
// which they are stored: one long stream. Usually, while the kernel multiplies a tile of N bytes,
// it prefetches the N bytes that begin kBytesAhead bytes after the tile's first byte. This doubled
// the bandwidth.
#pragma once

#include <cstdint>

namespace colossal::ops::kernels {
namespace {

// Distance in bytes from the weights in use to the weights that are prefetched meanwhile. It is
// large enough to hide the latency of memory, and small enough that the data stay in the
// first-level cache until they are used.
constexpr int64_t kBytesAhead = 8192;
constexpr int64_t kLine = 64;  // bytes of a cache line

// Prefetches the cache line that contains address `line` into all caches. Any address is allowed.
[[gnu::always_inline]] inline void prefetch(const void* line) {
  __builtin_prefetch(line, /*write=*/0, /*locality: all caches=*/3);
}

}  // namespace
}  // namespace colossal::ops::kernels
