// Prefetches weights that are read once, in the order in which they lie in memory. Tiles read a few
// rows side by side, and the CPU foresees a single stream far better than several short ones:
// prefetching doubled the bytes a second.
#pragma once

#include <cstdint>

namespace colossal::ops::kernels {
namespace {

// Far enough for the latency of memory, near enough to stay in the first-level cache until used.
constexpr int64_t kBytesAhead = 8192;
constexpr int64_t kLine = 64;  // bytes that are fetched together

[[gnu::always_inline]] inline void prefetch(const void* line) {
  __builtin_prefetch(line, /*write=*/0, /*locality: all caches=*/3);
}

}  // namespace
}  // namespace colossal::ops::kernels
