// The memory that the ranks of a group share when all are processes of one host: for each rank a
// state, where it shows what it calls and how far it is; slots, into which it copies what peers are
// to read; and a ring of messages to each other rank.
//
// Ranks take turns by counting phases. A rank ends a phase by raising its `phase`; it may read what
// peers wrote in a phase once they have ended it. Each round (one or two phases) has the next slot;
// a slot is written again once all peers have `taken` what was in it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "colossal/comm/backend.h"
#include "colossal/comm/shared_counter.h"
#include "colossal/comm/shared_memory.h"
#include "colossal/comm/shared_regions.h"

namespace colossal::comm {

class ShmBoard {
 public:
  static constexpr int64_t kSlotBytes = int64_t{256} << 10;
  static constexpr int kSlots = 8;  // of a rank
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
  // rank has come, or throws CommError naming those that have not.
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
  // Ends a phase, then waits until all others have ended it. The first phase of a call also
  // compares the calls. If only some ranks' memory lies in regions, the others end a second phase:
  // their peers learn in the first that they must copy.
  void next_phase(const Deadline& deadline);
  // After the first phase of a call: what a rank showed; whether all lie in the same region.
  Place place_of(int rank) const;
  bool one_region() const;
  // This round's slot of a rank.
  std::byte* slot(int rank) const { return slot(rank, round_); }
  // The own one, to be written: waits until peers have taken what was in it.
  std::byte* own_slot(const Deadline& deadline);
  void next_round();

  // The slots of one round, by rank.
  class Slots {
   public:
    Slots(const ShmBoard& board, uint64_t round) : board_(board), round_(round) {}
    std::byte* operator[](int rank) const { return board_.slot(rank, round_); }

   private:
    const ShmBoard& board_;
    uint64_t round_;
  };

  // Rounds of one phase: write(round, own slot), then read(round, slots). While peers have not
  // written what is to be read the rank writes ahead, so that threads that have to share their
  // cores with computing seldom wait for each other.
  template <typename Write, typename Read>
  void stream(int64_t rounds, const Write& write, const Read& read, const Deadline& deadline);

  // Rounds of two: write(round, own slot); once all have, reduce(round, slots), which may write
  // into the own one; once all have, read(round, slots). While peers reduce a round the rank reads
  // the one before and writes the next but one.
  template <typename Write, typename Reduce, typename Read>
  void stream_reduced(int64_t rounds, const Write& write, const Reduce& reduce, const Read& read,
                      const Deadline& deadline);

  Ring& ring(int from, int to) const;
  // Tells a peer that a ring has changed.
  void ring_bell(int rank) { state_of(rank).bell.raise(); }
  uint32_t bell() const { return state_of(own()).bell.value(); }
  // Waits until somebody has rung since `seen`. `peer`: who should.
  void wait_for_bell(uint32_t seen, int peer, const char* missing, const Deadline& deadline);

  // No later call can succeed; peers learn why.
  void close(const std::string& why, bool aborted);

 private:
  using Text = std::array<char, 512>;

  enum Presence : uint32_t { absent, present, lost, left };

  // The call that a rank makes. Peers read it, word by word, while it may change.
  struct Shown {
    std::atomic<uint64_t> ordinal;  // of the call, from 1
    std::atomic<uint64_t> what, bytes;
    std::atomic<uint64_t> region;
    std::atomic<int64_t> offset;
  };
  struct RankState {
    alignas(64) SharedCounter phase;
    SharedCounter taken;  // rounds
    alignas(64) SharedCounter bell;
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
  // The offsets of what lies in the memory of a group of `n` ranks, behind the verdict.
  struct Places {
    int64_t states, counts, slots, rings, end;
    explicit Places(int ranks);
  };

  RankState& state_of(int rank) const;
  Verdict& verdict() const { return *reinterpret_cast<Verdict*>(memory_.data()); }
  int64_t* counts_of(int rank) const;  // of this call
  int own() const { return membership_.rank; }
  int size() const { return membership_.size(); }

  void take_place(std::chrono::milliseconds timeout);
  void watch_processes();
  std::byte* slot(int rank, uint64_t round) const;
  static bool has_reached(const SharedCounter& counter, uint32_t count) {
    return static_cast<int32_t>(counter.value() - count) >= 0;
  }
  // Whether all peers have reached `count`.
  bool have_reached(SharedCounter RankState::*counter, uint32_t count) const;
  void wait_until_all_reach(SharedCounter RankState::*counter, uint32_t count,
                            const Deadline& deadline);
  void wait_until_reached(int rank, SharedCounter RankState::*counter, uint32_t count,
                          const Deadline& deadline);
  static uint32_t taken_before(uint64_t round) { return static_cast<uint32_t>(round) - kSlots + 1; }
  void raise_phase();
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

template <typename Write, typename Read>
void ShmBoard::stream(int64_t rounds, const Write& write, const Read& read,
                      const Deadline& deadline) {
  write(0, own_slot(deadline));
  next_phase(deadline);
  const uint64_t first_round = round_;
  const uint32_t first_phase = phase_;
  int64_t written = 1;
  const auto write_next = [&] {
    write(written, slot(own(), first_round + written));
    ++written;
    raise_phase();
  };
  const auto may_write = [&] {
    return written < rounds && have_reached(&RankState::taken, taken_before(first_round + written));
  };
  for (int64_t round = 0; round < rounds; ++round) {
    const auto phase = static_cast<uint32_t>(first_phase + round);
    if (written == round) {
      wait_until_all_reach(&RankState::taken, taken_before(round_), deadline);
      write_next();
    }
    while (!have_reached(&RankState::phase, phase) && may_write()) write_next();
    wait_until_all_reach(&RankState::phase, phase, deadline);
    read(round, Slots(*this, round_));
    next_round();
  }
}

template <typename Write, typename Reduce, typename Read>
void ShmBoard::stream_reduced(int64_t rounds, const Write& write, const Reduce& reduce,
                              const Read& read, const Deadline& deadline) {
  const uint64_t first_round = round_;
  const auto write_round = [&](int64_t round) {
    if (round >= rounds) return;
    wait_until_all_reach(&RankState::taken, taken_before(first_round + round), deadline);
    write(round, slot(own(), first_round + round));
  };
  const auto read_round = [&](int64_t round) {
    read(round, Slots(*this, first_round + round));
    next_round();
  };
  write_round(0);
  write_round(1);
  next_phase(deadline);
  for (int64_t round = 0; round < rounds; ++round) {
    reduce(round, Slots(*this, first_round + round));
    raise_phase();
    if (round > 0) read_round(round - 1);
    write_round(round + 2);
    wait_until_all_reach(&RankState::phase, phase_, deadline);
  }
  read_round(rounds - 1);
}

}  // namespace colossal::comm
