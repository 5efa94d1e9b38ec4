// The memory that the ranks of a group share when all are processes of one host: for each rank a
// seat, where it shows what it calls and how far it is; two slots, into which it copies what peers
// are to read; and a ring of messages to each other rank.
//
// Ranks take turns by counting phases. A rank ends a phase by raising its `phase`; it may read what
// peers wrote in a phase once they have ended it. Slots alternate by round (one or two phases):
// when a rank begins round r, every peer has ended a phase of round r - 1, hence has read all of r
// - 2.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "colossal/comm/backend.h"
#include "colossal/comm/shared_memory.h"
#include "colossal/comm/shared_regions.h"
#include "colossal/comm/signal.h"

namespace colossal::comm {

class ShmBoard {
 public:
  static constexpr int64_t kSlotBytes = int64_t{512} << 10;
  static constexpr int64_t kFrameBytes = int64_t{32} << 10;
  static constexpr int kFrames = 8;  // of a ring

  // One message, or a piece of one.
  struct Frame {
    int64_t kind = 0;
    int64_t message_bytes = 0;
    int64_t piece_bytes = 0;
    alignas(64) std::byte data[kFrameBytes];
  };
  struct Ring {
    alignas(64) std::atomic<uint64_t> sent;
    alignas(64) std::atomic<uint64_t> received;
    Frame frames[kFrames];
  };

  static int64_t bytes_needed(int ranks);

  // `memory`: of bytes_needed(), zero when the first rank comes. Collective: returns when every
  // rank has taken its seat, or throws CommError naming those that have not.
  ShmBoard(SharedMemory memory, Membership membership, std::chrono::milliseconds timeout);
  ~ShmBoard();
  ShmBoard(const ShmBoard&) = delete;
  ShmBoard& operator=(const ShmBoard&) = delete;

  // Begins a call between two ranks. Throws CallFailure where the group has ended.
  void begin_message();
  using Place = SharedRegions::Place;

  // Begins a collective call and announces it; `counts`: of its parts. `place`: where peers may
  // read this rank's memory, if it lies in a region.
  void show(const Call& call, Counts counts, Place place = {});
  // Ends a phase, then waits until all others have. The first of a call also compares the calls.
  // Where some ranks' memory lies in regions and others' does not, those others end a second one:
  // their peers learn in the first that they must copy.
  void next_phase(const Deadline& deadline);
  // After the first phase of a call: what a rank showed; whether all lie in the same region.
  Place place_of(int rank) const;
  bool one_region() const;
  // This round's slot of a rank.
  std::byte* slot(int rank) const;
  void next_round() { ++round_; }

  Ring& ring(int from, int to) const;
  // Tells a peer that a ring has changed.
  void ring_bell(int rank) { seat(rank).bell.raise(); }
  uint32_t bell() const { return seat(own()).bell.value(); }
  // Waits until somebody has rung since `seen`. `peer`: who should.
  void wait_for_bell(uint32_t seen, int peer, const char* missing, const Deadline& deadline);

  // No later call can succeed; peers learn why.
  void close(const std::string& why, bool aborted);

 private:
  using Text = std::array<char, 512>;

  enum Presence : uint32_t { absent, present, lost, left };

  // What a rank calls. Peers look at it while it may change: words, read one by one.
  struct Shown {
    std::atomic<uint64_t> ordinal;  // of the call, from 1
    std::atomic<uint64_t> what, bytes;
    std::atomic<uint64_t> region;
    std::atomic<int64_t> offset;
  };
  struct Seat {
    alignas(64) Signal phase;
    alignas(64) Signal bell;
    alignas(64) std::atomic<uint32_t> presence;
    std::atomic<int32_t> process;
    Shown shown[2];  // by parity of the ordinal: a rank can be one call ahead
    Text farewell;
  };
  // Why the group ended: said by the first that notices, so that all name the same cause.
  struct Verdict {
    enum State : uint32_t { none, being_written, spoken };
    alignas(64) std::atomic<uint32_t> state;
    Text reason;
  };
  // Where things lie in the memory of a group of so many ranks: the verdict, then these.
  struct Places {
    int64_t seats, counts, slots, rings, end;
    explicit Places(int ranks);
  };

  Seat& seat(int rank) const;
  Verdict& verdict() const { return *reinterpret_cast<Verdict*>(memory_.data()); }
  int64_t* counts_of(int rank) const;  // of this call
  int own() const { return membership_.rank; }
  int size() const { return membership_.size(); }

  void take_seat(std::chrono::milliseconds timeout);
  void watch_processes();
  bool has_ended(int rank) const {
    return static_cast<int32_t>(seat(rank).phase.value() - phase_) >= 0;
  }
  void wait_for_phase_of(int rank, const Deadline& deadline);
  void end_phase(const Deadline& deadline);
  bool others_share() const;
  void compare_calls();
  // Throws what has happened to the group, or to `peer`, if anything; `over` is asked once more
  // before.
  template <typename Over>
  void check(int peer, const Over& over);
  std::string closed() const;
  std::string trouble(int peer) const;
  bool process_has_ended(int rank) const;
  std::string other_call() const;
  [[noreturn]] void fail(const CallFailure& failure);
  Call read_call(const Shown& shown) const;

  SharedMemory memory_;
  Membership membership_;
  bool cores_to_spare_;
  std::vector<int> processes_;  // descriptors that become readable when a peer's process ends
  uint32_t phase_ = 0;
  uint64_t round_ = 0;
  uint64_t ordinal_ = 0;
  Call call_;
  bool announced_ = false;    // the call under way is a collective one
  bool compared_ = true;      // ... and all have called the same
  mutable std::mutex mutex_;  // of closed_, which any thread may set
  std::string closed_;
};

}  // namespace colossal::comm
