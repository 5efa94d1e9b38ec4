// Writes into shared memory that peers have read before.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace colossal::comm {

// Like memcpy(), with non-temporal stores, which leave no line in the cache of any core.
void copy_past_caches(std::byte* to, const std::byte* from, int64_t bytes);

// Writes through the caches or past them, whichever is faster. Before an ordinary store, the cache
// lines with the old contents must move from the peers' cores to the writing core: at 10 to 40 GB/s
// from a near core (one that shares a cache with it), at 2 to 9 GB/s from a far one, while
// non-temporal stores reach 50 GB/s. But near peers need twice the time to read what was stored
// past the caches. The kernel (and on a virtual machine the host) chooses the ranks' cores and may
// change them, so writes are timed: after slow writes, some writes go past the caches before an
// ordinary write is tried again.
class PeerWriter {
 public:
  // slow: an ordinary write counts as slow if writes past the caches have been more than `slow`
  // times as fast.
  explicit PeerWriter(double slow = 4) : slow_(slow) {}

  void copy(std::byte* to, const std::byte* from, int64_t bytes);

  // Calls one of two functions, which must write the same `bytes` bytes: through the caches, or
  // past them.
  template <typename ThroughCaches, typename PastCaches>
  void write(int64_t bytes, const ThroughCaches& through_caches, const PastCaches& past_caches);

 private:
  // The speed of writes of about one size. Sizes are timed separately because the fence after
  // non-temporal stores weighs more in short writes.
  struct Pace {
    int past_caches = kFirstPastCaches;  // remaining writes past the caches
    double past_caches_rate = 0;         // the best so far, in bytes per second
    int slow = 0;                        // slow writes minus fast writes, clamped to 0 .. kSlow
  };
  // Smaller writes are too short to be timed; they go through the caches.
  static constexpr int64_t kTimedBytes = int64_t{4} << 10;
  // The first writes go past the caches: enough of them to measure their rate although the first
  // ones also touch new memory.
  static constexpr int kFirstPastCaches = 32;
  // Single writes may be slow because a rank lost its core, and single writes to a far peer may be
  // fast, mostly after writes past the caches.
  static constexpr int kSlow = 32;
  // Number of writes past the caches after slow writes, before an ordinary write is tried again. A
  // peer that has moved nearer is therefore noticed after some tens of MiB.
  static constexpr int kPastCaches = 256;

  // Calls `write` and returns its rate in bytes per second.
  template <typename Write>
  static double rate_of(int64_t bytes, const Write& write);

  double slow_;
  std::array<Pace, 64> paces_;  // by std::bit_width of the size
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
