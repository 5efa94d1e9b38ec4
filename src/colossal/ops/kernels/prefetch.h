// Software prefetching of weights, for kernels that read a few rows of a weight side by side. The
// hardware prefetcher follows one long stream of addresses far better than several short streams.
// Kernels therefore prefetch a weight in the order in which it is stored, which doubled the
// bandwidth.
#pragma once

#include <cstdint>

namespace colossal::ops::kernels {
namespace {

// How many bytes ahead of its use a weight is prefetched. The distance hides the latency of memory,
// but the data still stay in the first-level cache until they are used.
constexpr int64_t kBytesAhead = 8192;
constexpr int64_t kLine = 64;  // bytes of a cache line

// Prefetches the cache line that contains address `line` into all caches. Any address is allowed.
[[gnu::always_inline]] inline void prefetch(const void* line) {
  __builtin_prefetch(line, /*write=*/0, /*locality: all caches=*/3);
}

}  // namespace
}  // namespace colossal::ops::kernels
