#include "colossal/comm/slot_copy.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <chrono>
#include <cstring>

namespace colossal::comm {
namespace {

// Smaller ones are with peers sooner through the caches, and too short to be timed.
constexpr int64_t kLargeBytes = int64_t{32} << 10;
// Some are when a rank loses its core, and a few tens when slots are touched for the first time.
constexpr int kSlowInARow = 32;
// After so many; then one decides. A peer that has come nearer is found after some tens of MiB.
constexpr int kPastCaches = 256;

#if defined(__x86_64__)
void copy_past_caches(std::byte* to, const std::byte* from, int64_t bytes) {
  constexpr int64_t kWidth = sizeof(__m128i);
  const int64_t streamed = bytes / kWidth * kWidth;
  for (int64_t at = 0; at < streamed; at += kWidth) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
  _mm_sfence();  // before the phase is raised
  std::memcpy(to + streamed, from + streamed, bytes - streamed);
}
#else
void copy_past_caches(std::byte* to, const std::byte* from, int64_t bytes) {
  std::memcpy(to, from, bytes);
}
#endif

}  // namespace

void SlotCopy::operator()(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes < kLargeBytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return;
  }
  if (past_caches_ > 0) {
    --past_caches_;
    return copy_past_caches(to, from, bytes);
  }
  const auto begin = std::chrono::steady_clock::now();
  std::memcpy(to, from, bytes);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (static_cast<double>(bytes) >= slow_ * took.count()) {
    slow_in_a_row_ = 0;
  } else if (++slow_in_a_row_ >= kSlowInARow) {
    past_caches_ = kPastCaches;
  }
}

}  // namespace colossal::comm
