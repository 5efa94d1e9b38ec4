#include "colossal/comm/peer_writer.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <cstring>

namespace colossal::comm {

void copy_past_caches(std::byte* to, const std::byte* from, int64_t bytes) {
#if defined(__x86_64__)
  constexpr int64_t kWidth = sizeof(__m128i);
  // Streaming stores need aligned addresses.
  int64_t at = std::min<int64_t>(-reinterpret_cast<uintptr_t>(to) % kWidth, bytes);
  std::memcpy(to, from, at);
  for (; at + kWidth <= bytes; at += kWidth) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
  std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence();  // makes the stores visible before the phase is raised
#else
  std::memcpy(to, from, bytes);
#endif
}

void PeerWriter::copy(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes == 0) return;
  write(
      bytes, [&] { std::memcpy(to, from, bytes); }, [&] { copy_past_caches(to, from, bytes); });
}

}  // namespace colossal::comm
