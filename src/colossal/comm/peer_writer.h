// Writes into memory that peers have read.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace colossal::comm {

// The same bytes as memcpy(), by stores that leave no line in a cache of this core or of another.
void copy_past_caches(std::byte* to, const std::byte* from, int64_t bytes);

// Peers' caches still hold what was there, and the lines come back to the core that writes them: at
// 10 to 40 GB/s from a core that shares a cache with it, at 2 to 9 GB/s from one that does not,
// where stores past the caches reach 50. Near, those would cost the peers twice the time to read.
// Where the ranks run is the kernel's choice, and on a virtual machine the host's, and changes: so
// writes are timed, and after slow ones some go past the caches before the next is tried.
class PeerWriter {
 public:
  // `slow`: a write counts as slow if one past the caches is that many times as fast.
  explicit PeerWriter(double slow = 4) : slow_(slow) {}

  void copy(std::byte* to, const std::byte* from, int64_t bytes);

  // One of two functions that write the same `bytes` bytes.
  template <typename ThroughCaches, typename PastCaches>
  void write(int64_t bytes, const ThroughCaches& through_caches, const PastCaches& past_caches);

 private:
  // The speed of writes of about one size. Sizes are kept apart because short writes pay for their
  // fence.
  struct Pace {
    int past_caches = kFirstPastCaches;  // writes yet to go past the caches
    double past_caches_rate = 0;         // the best so far, bytes a second
    int slow = 0;                        // slow writes less fast ones, from 0 to kSlow
  };
  // Smaller ones are too short to be timed.
  static constexpr int64_t kTimedBytes = int64_t{4} << 10;
  // Enough to know their rate, though memory is touched for the first time.
  static constexpr int kFirstPastCaches = 32;
  // Some are when a rank loses its core; and between a far peer's slow ones some are fast, most of
  // them after writes past the caches.
  static constexpr int kSlow = 32;
  // How many writes go past the caches after slow ones, before an ordinary write is tried again. So
  // a peer that has come nearer is noticed after some tens of MiB.
  static constexpr int kPastCaches = 256;

  // Bytes a second.
  template <typename Write>
  static double rate_of(int64_t bytes, const Write& write);

  double slow_;
  std::array<Pace, 64> paces_;  // by the width of the size in bits
};

template <typename Write>
double PeerWriter::rate_of(int64_t bytes, const Write& write) {
  const auto begin = std::chrono::steady_clock::now();
  write();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(bytes) / took.count();
}

template <typename ThroughCaches, typename PastCaches>
void PeerWriter::write(int64_t bytes, const ThroughCaches& through_caches,
                       const PastCaches& past_caches) {
  if (bytes < kTimedBytes) return through_caches();
  Pace& pace = paces_[std::bit_width(static_cast<uint64_t>(bytes))];
  if (pace.past_caches > 0) {
    --pace.past_caches;
    pace.past_caches_rate = std::max(pace.past_caches_rate, rate_of(bytes, past_caches));
    return;
  }
  const bool slow = rate_of(bytes, through_caches) * slow_ < pace.past_caches_rate;
  pace.slow = std::clamp(pace.slow + (slow ? 1 : -1), 0, kSlow);
  if (pace.slow == kSlow) pace.past_caches = kPastCaches;
}

}  // namespace colossal::comm
