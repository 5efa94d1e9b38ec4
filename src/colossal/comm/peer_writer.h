// Writes into shared memory that peers have read before, as fast as the cores' caches allow.
// ShmBackend uses it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace colossal::comm {

// Like memcpy(). On x86, uses non-temporal stores, so that the written lines are in no core's cache
// afterwards, and ends with a store fence, so that peers see the bytes before anything that is
// stored later. On other CPUs, it is memcpy().
void copy_past_caches(std::byte* to, const std::byte* from, int64_t bytes);

// Chooses for each write between ordinary stores (through the caches) and non-temporal stores (past
// the caches). Which is faster depends on the cores. Before an ordinary store, the cache lines with
// the old contents must move from the peers' cores to the writing core. Measured: 10 to 40 GB/s
// from a near core, with which the writing core shares a cache, and 2 to 9 GB/s from a far core.
// Non-temporal stores reach 50 GB/s, but near peers then need twice the time to read. The kernel
// may move a rank to another core, so PeerWriter times its writes. It writes past the caches for a
// while when ordinary writes have become slow, then tries an ordinary write again. Not thread-safe.
class PeerWriter {
 public:
  // slow: an ordinary write counts as slow if the fastest write past the caches of about the same
  // size was more than `slow` times as fast.
  explicit PeerWriter(double slow = 4) : slow_(slow) {}

  // Like memcpy(), with the faster stores.
  void copy(std::byte* to, const std::byte* from, int64_t bytes);

  // Calls one of two functions that write the same `bytes` bytes, the one that is expected to be
  // faster: through_caches() with ordinary stores, or past_caches() with non-temporal stores, which
  // must end with a store fence as copy_past_caches() does.
  template <typename ThroughCaches, typename PastCaches>
  void write(int64_t bytes, const ThroughCaches& through_caches, const PastCaches& past_caches);

 private:
  // The speed of writes of about one size. Sizes are timed separately because the fence after
  // non-temporal stores takes a larger part of short writes.
  struct Pace {
    int past_caches = kFirstPastCaches;  // number of next writes that go past the caches
    double past_caches_rate = 0;         // of the fastest write past the caches, bytes per second
    int slow = 0;  // number of slow minus number of fast ordinary writes, kept from 0 to kSlow
  };
  // Smaller writes are too short to be timed; they go through the caches.
  static constexpr int64_t kTimedBytes = int64_t{4} << 10;
  // Number of first writes, which go past the caches in order to measure their rate. More than one
  // is needed, because the first writes to new memory are slower.
  static constexpr int kFirstPastCaches = 32;
  // When slow ordinary writes exceed fast ones by this number, writes go past the caches. Single
  // writes say little: a rank that lost its core is slow once, and a write to a far peer may be
  // fast after writes past the caches.
  static constexpr int kSlow = 32;
  // Number of writes of about one size that go past the caches before an ordinary write is tried
  // again. When a peer has moved nearer, PeerWriter notices it after at most as many writes: with
  // 256 KiB each, after 64 MiB.
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
