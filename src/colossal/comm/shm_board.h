// The shared memory of a group whose ranks are processes of one host. Each rank has a state, which
// shows its call and its progress; slots, into which it copies data for peers to read; and a
// message ring to each other rank.
//
// Ranks synchronize by counting phases. A rank ends a phase by incrementing its counter `phase`;
// what it wrote in that phase, peers may read afterwards. Each round (one or two phases) uses each
// rank's next slot. A rank that has read the slots of a round increments its counter `taken`; a
// slot is rewritten only after all peers have done so.
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
  static constexpr int kSlots = 8;  // per rank
  static constexpr int64_t kFrameBytes = int64_t{32} << 10;
  static constexpr int kFrames = 8;  // per ring

  // A message, or a piece of a message.
  struct Frame {
    int64_t kind = 0;           // Transport::Kind
    int64_t message_bytes = 0;  // of the whole message
    int64_t piece_bytes = 0;
    alignas(64) std::byte data[kFrameBytes];
  };
  struct Ring {
    alignas(64) std::atomic<uint64_t> sent;      // number of frames written so far
    alignas(64) std::atomic<uint64_t> received;  // number of frames read so far
    Frame frames[kFrames];
  };

  static int64_t bytes_needed(int ranks);

  // memory: bytes_needed() bytes that were zero before the first rank used them. Collective:
  // returns when every rank has called it, or throws CommError naming a rank that has not within
  // `timeout`.
  ShmBoard(SharedMemory memory, Membership membership, std::chrono::milliseconds timeout);
  ~ShmBoard();
  ShmBoard(const ShmBoard&) = delete;
  ShmBoard& operator=(const ShmBoard&) = delete;

  // Begins a call that is not shown to all ranks, such as a send. Throws CallFailure if the group
  // has ended.
  void begin_message();
  using Place = SharedRegions::Place;

  // Begins a collective call and shows it to the peers. counts: number of elements of each part;
  // empty if the call has no parts. place: where peers may read this rank's tensor, if it is in a
  // region. Throws CallFailure if the group has ended.
  void show(const Call& call, Counts counts, Place place = {});
  // Ends a phase, then waits until all peers have ended it. The first phase of a call also compares
  // the ranks' calls. On a rank whose memory is in no region, it also waits for a second phase if
  // some peers' memory is in regions: these peers learn in the first phase that they must copy into
  // slots, and end the second when they have.
  void next_phase(const Deadline& deadline);
  // Valid after the first phase of a call. place_of(): the place that `rank` has shown.
  // one_region(): whether the memory of all ranks is in the same region.
  Place place_of(int rank) const;
  bool one_region() const;
  // The slot of a rank in this round.
  std::byte* slot(int rank) const { return slot(rank, round_); }
  // This rank's slot in this round, for writing. Waits until all peers have read its earlier
  // contents.
  std::byte* own_slot(const Deadline& deadline);
  void next_round();  // ends a round: this rank has read its slots

  // The slots of one round, by rank.
  class Slots {
   public:
    Slots(const ShmBoard& board, uint64_t round) : board_(board), round_(round) {}
    std::byte* operator[](int rank) const { return board_.slot(rank, round_); }

   private:
    const ShmBoard& board_;
    uint64_t round_;
  };

  // Runs rounds of one phase: write(round, own slot), then read(round, slots). While peers have not
  // written yet, the rank writes later rounds, so that communication threads that share their cores
  // with computation seldom wait for each other.
  template <typename Write, typename Read>
  void stream(int64_t rounds, const Write& write, const Read& read, const Deadline& deadline);

  // Runs rounds of two phases: write(round, own slot); when all ranks have written, reduce(round,
  // slots), which may write into the own slot; when all ranks have reduced, read(round, slots).
  // While peers reduce a round, the rank reads the previous round and writes the round after the
  // next.
  template <typename Write, typename Reduce, typename Read>
  void stream_reduced(int64_t rounds, const Write& write, const Reduce& reduce, const Read& read,
                      const Deadline& deadline);

  Ring& ring(int from, int to) const;
  // Tells rank `rank` that a ring between it and this rank has changed.
  void ring_bell(int rank) { state_of(rank).bell.raise(); }
  uint32_t bell() const { return state_of(own()).bell.value(); }
  // Waits until this rank's bell differs from `seen`, a value of bell(). Throws CallFailure if
  // `peer` is lost or the deadline passes. missing: what the peer did not do, for the error: " did
  // not send".
  void wait_for_bell(uint32_t seen, int peer, const char* missing, const Deadline& deadline);

  // Makes running and later calls of this rank in the group fail, and shows `why` to the peers.
  // aborted: true if the world was aborted, false if a call failed.
  void close(const std::string& why, bool aborted);

 private:
  using Text = std::array<char, 512>;

  // absent: the rank has not constructed its ShmBoard yet. lost: it called close(), for the reason
  // in RankState::farewell. left: its ShmBoard was destroyed without a failure.
  enum Presence : uint32_t { absent, present, lost, left };

  // The call that a rank makes. Its fields are atomic because peers may read them while they
  // change.
  struct Shown {
    std::atomic<uint64_t> ordinal;      // number of the call, from 1; 0 while the fields change
    std::atomic<uint64_t> what, bytes;  // what: the other fields of Call in one number
    std::atomic<uint64_t> region;       // region, offset: the Place
    std::atomic<int64_t> offset;
  };
  struct RankState {
    alignas(64) SharedCounter phase;
    SharedCounter taken;  // number of rounds whose slots this rank has read
    alignas(64) SharedCounter bell;
    alignas(64) std::atomic<uint32_t> presence;
    std::atomic<int32_t> process;  // process id
    Shown shown[2];                // by parity of the ordinal, since a rank can be one call ahead
    Text farewell;                 // the reason, if presence is `lost`
  };
  // Why the group ended. The first rank that notices a failure writes it, so that all ranks report
  // the same cause.
  struct Verdict {
    enum State : uint32_t { none, being_written, spoken };  // spoken: `reason` can be read
    alignas(64) std::atomic<uint32_t> state;
    Text reason;
  };
  // The byte offsets of the parts of the memory of a group of `ranks` ranks; the verdict is at
  // offset 0.
  struct Places {
    int64_t states, counts, slots, rings, end;
    explicit Places(int ranks);
  };

  RankState& state_of(int rank) const;
  Verdict& verdict() const { return *reinterpret_cast<Verdict*>(memory_.data()); }
  int64_t* counts_of(int rank) const;  // counts of the current call
  int own() const { return membership_.rank; }
  int size() const { return membership_.size(); }

  void take_place(std::chrono::milliseconds timeout);
  void watch_processes();
  std::byte* slot(int rank, uint64_t round) const;
  static bool has_reached(const SharedCounter& counter, uint32_t count) {
    return static_cast<int32_t>(counter.value() - count) >= 0;
  }
  // Whether the counters of all peers have reached `count`.
  bool have_reached(SharedCounter RankState::*counter, uint32_t count) const;
  void wait_until_all_reach(SharedCounter RankState::*counter, uint32_t count,
                            const Deadline& deadline);
  void wait_until_reached(int rank, SharedCounter RankState::*counter, uint32_t count,
                          const Deadline& deadline);
  // Returns the count that `taken` of all peers must reach before a rank writes its slot of
  // `round`.
  static uint32_t taken_before(uint64_t round) { return static_cast<uint32_t>(round) - kSlots + 1; }
  void raise_phase();
  void end_phase(const Deadline& deadline);
  // Whether some peers' tensors are in regions, but this rank's is not.
  bool others_share() const;
  void compare_calls();
  // Throws CallFailure if the group is closed. over: whether what this rank waits for has happened.
  // If not, also throws if any rank was lost or called something else, or if `peer` has left.
  template <typename Over>
  void check(int peer, const Over& over);
  std::string closed() const;
  std::string failure_reason(int peer) const;
  bool process_has_ended(int rank) const;
  std::string other_call() const;
  [[noreturn]] void fail(const CallFailure& failure);
  Call read_call(const Shown& shown) const;

  SharedMemory memory_;
  Membership membership_;
  bool cores_to_spare_;
  std::vector<int> processes_;  // file descriptors (pidfd), readable when the peer's process ends
  uint32_t phase_ = 0;
  uint64_t round_ = 0;
  uint64_t ordinal_ = 0;
  Call call_;
  bool announced_ = false;    // the current call is a collective
  bool compared_ = true;      // ... and the ranks' calls have been compared
  mutable std::mutex mutex_;  // guards closed_, which any thread may set
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
