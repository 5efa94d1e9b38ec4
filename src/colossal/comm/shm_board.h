// The shared memory of a group whose ranks are processes of one host, for ShmBackend. Each rank has
// in it a RankState, which shows its call and its progress; kSlots slots, into which it copies data
// for all peers to read; and a ring of messages to each other rank.
//
// A collective consists of phases, which all ranks count. A rank writes, then ends the phase by
// raising its counter RankState::phase. A rank whose peers have all ended the phase may read what
// they have written.
//
// Slots are used in rounds of one or two phases, numbered over the life of the group. In round r
// each rank writes its slot number r % kSlots. A rank that has read the slots of a round raises its
// counter RankState::taken. A rank writes a slot again only when all peers have read it.
//
// A call does without slots if the tensors of all ranks are in one region: shared memory from
// shared_empty() (group.h), in which peers read the tensors themselves.
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

// One rank's access to the shared memory. Ranks are ranks within the group. Only close() is
// thread-safe; all else is called by one call of the group at a time.
class ShmBoard {
 public:
  static constexpr int64_t kSlotBytes = int64_t{256} << 10;
  static constexpr int kSlots = 8;  // per rank
  static constexpr int64_t kFrameBytes = int64_t{32} << 10;
  static constexpr int kFrames = 8;  // per ring

  // A message of up to kFrameBytes bytes, or a piece of a longer message.
  struct Frame {
    int64_t kind = 0;           // a Transport::Kind
    int64_t message_bytes = 0;  // of the whole message
    int64_t piece_bytes = 0;    // of `data` that are used
    alignas(64) std::byte data[kFrameBytes];
  };
  // The messages from one rank to another. Frame number k, counted from 0, is frames[k % kFrames].
  struct Ring {
    alignas(64) std::atomic<uint64_t> sent;      // number of frames that the sender has written
    alignas(64) std::atomic<uint64_t> received;  // number of frames that the receiver has read
    Frame frames[kFrames];
  };

  // Returns the size of the shared memory of a group of `ranks` ranks.
  static int64_t bytes_needed(int ranks);

  // memory: bytes_needed() bytes, zero when created, which all ranks have mapped. Collective:
  // returns when every rank has called it. Throws CommError with the name of a rank that has not
  // called it within `timeout`.
  ShmBoard(SharedMemory memory, Membership membership, std::chrono::milliseconds timeout);
  ~ShmBoard();  // tells the peers that this rank has left
  ShmBoard(const ShmBoard&) = delete;
  ShmBoard& operator=(const ShmBoard&) = delete;

  // Begins a call in which only some ranks of the group exchange messages, such as a send. Throws
  // CallFailure if the group has ended.
  void begin_message();
  using Place = SharedRegions::Place;

  // Begins a collective and shows it to the peers. counts: for each rank, the number of elements of
  // its part of the tensor; empty if the call has no parts. place: position of this rank's tensor
  // in a region, where peers can read it; {} if the tensor is in no region. Throws CallFailure if
  // the group has ended.
  void show(const Call& call, Counts counts, Place place = {});
  // Ends a phase and waits until all peers have ended it. Throws CallFailure if a peer is lost or
  // the deadline passes. The first next_phase() after show() also compares the ranks' calls and
  // throws CallFailure if they differ. If this rank's tensor is in no region but a peer's is, that
  // first next_phase() also ends a second phase, in which that peer fills its slot.
  //
  // What a rank does between show() and reading its peers' data depends on its `place`:
  //   - In no region: it fills its slot (own_slot()) and calls next_phase() once.
  //   - In a region: it calls next_phase(), then one_region(). If the result is true, it may
  //     read the peers' tensors in place; when it has read them, it calls next_phase() again, so
  //     that the peers may change them. If the result is false, it fills its slot and calls
  //     next_phase() again.
  // After reading slots, a rank calls next_round(). stream() and stream_reduced() fill the slot and
  // make all calls that follow.
  void next_phase(const Deadline& deadline);
  // Returns the argument `place` of show() on `rank`. Valid after the first phase of a call.
  Place place_of(int rank) const;
  // Whether the tensors of all ranks are in the same region. Valid after the first phase of a call.
  bool one_region() const;
  // Returns the slot of `rank` in the current round, for reading.
  std::byte* slot(int rank) const { return slot(rank, round_); }
  // Waits until all peers have read the earlier contents of this rank's slot for the current round,
  // then returns the slot, for writing.
  std::byte* own_slot(const Deadline& deadline);
  // Ends the current round: tells the peers that this rank has read their slots.
  void next_round();

  // The slots of all ranks in one round: slots[rank].
  class Slots {
   public:
    Slots(const ShmBoard& board, uint64_t round) : board_(board), round_(round) {}
    std::byte* operator[](int rank) const { return board_.slot(rank, round_); }

   private:
    const ShmBoard& board_;
    uint64_t round_;
  };

  // Runs `rounds` rounds of one phase each, numbered from 0 in the arguments of the functions.
  // rounds: at least 1, the same on all ranks. Call show() before; if this rank's tensor is in a
  // region, also next_phase() and one_region(), which must be false. In each round the rank calls
  // write(round, own slot); when all ranks have written, it calls read(round, slots of all ranks).
  // While it waits for peers to write, the rank already writes later rounds. So communication
  // threads that share their cores with computation seldom wait.
  template <typename Write, typename Read>
  void stream(int64_t rounds, const Write& write, const Read& read, const Deadline& deadline);

  // Runs `rounds` rounds, numbered from 0 in the arguments of the functions. rounds: at least 1,
  // the same on all ranks. Make the same calls before as for stream(). In each round the rank calls
  // write(round, own slot). When all ranks have written, it calls reduce(round, slots of all
  // ranks), which may write into the own slot. When all ranks have reduced, it calls read(round,
  // slots of all ranks).
  //
  // Rounds overlap: while peers reduce round k, the rank reads round k - 1 and writes round k + 2.
  // This function calls next_phase() once, after the write() of rounds 0 and 1. Then each round k
  // has one phase, which ends the reduce() of round k and, for k > 0, the write() of round k + 1.
  template <typename Write, typename Reduce, typename Read>
  void stream_reduced(int64_t rounds, const Write& write, const Reduce& reduce, const Read& read,
                      const Deadline& deadline);

  // Returns the ring of messages from rank `from` to rank `to`.
  Ring& ring(int from, int to) const;
  // Raises the bell counter of `rank`: tells it that a ring between it and this rank has changed.
  void ring_bell(int rank) { state_of(rank).bell.raise(); }
  // Returns this rank's bell counter.
  uint32_t bell() const { return state_of(own()).bell.value(); }
  // Waits until bell() differs from `seen`, an earlier result of bell(). Throws CallFailure if
  // `peer` is lost or the deadline passes. missing: what the peer did not do, for the error, such
  // as " did not send".
  void wait_for_bell(uint32_t seen, int peer, const char* missing, const Deadline& deadline);

  // Makes running and later calls of this rank in the group fail, and shows `why` to the peers.
  // aborted: only for the error messages of this rank: true if the world was aborted, false if a
  // call failed. May be called from any thread.
  void close(const std::string& why, bool aborted);

 private:
  using Text = std::array<char, 512>;  // ends with a zero; a longer text is cut

  // Whether a rank has a ShmBoard.
  enum Presence : uint32_t {
    absent,   // not yet constructed
    present,  // in use
    lost,     // close() was called, for the reason in RankState::farewell
    left      // destroyed without a failure
  };

  // The call that a rank shows. Its fields are atomic because peers may read them while they
  // change.
  struct ShownCall {
    std::atomic<uint64_t> ordinal;      // number of the call, from 1; 0 while the fields change
    std::atomic<uint64_t> what, bytes;  // Call::bytes, and in `what` all other fields of Call
    std::atomic<uint64_t> region;       // Place::region
    std::atomic<int64_t> offset;        // Place::offset
  };
  // What a rank shows to its peers, in shared memory.
  struct RankState {
    alignas(64) SharedCounter phase;             // number of phases that this rank has ended
    SharedCounter taken;                         // number of rounds whose slots this rank has read
    alignas(64) SharedCounter bell;              // see ring_bell()
    alignas(64) std::atomic<uint32_t> presence;  // a Presence
    std::atomic<int32_t> process;                // process id
    ShownCall shown[2];  // by ordinal % 2, because a rank can be one call ahead of its peers
    Text farewell;       // why the rank is lost, if `presence` is `lost`
  };
  // Why the group ended, in shared memory. The first rank that notices a failure writes it, so that
  // all ranks report the same cause.
  struct Verdict {
    enum State : uint32_t {
      none,            // no failure
      being_written,   // `reason` must not be read yet
      reason_complete  // `reason` is complete
    };
    alignas(64) std::atomic<uint32_t> state;
    Text reason;
  };
  // Byte offsets in the memory of a group of `ranks` ranks: of the RankStates, the counts, the
  // slots and the rings, each by rank. `end` is the size of the memory. The verdict is at offset 0.
  struct Places {
    int64_t states, counts, slots, rings, end;
    explicit Places(int ranks);
  };

  RankState& state_of(int rank) const;
  Verdict& verdict() const { return *reinterpret_cast<Verdict*>(memory_.data()); }
  // Returns where `rank` shows the counts of the current call: size() values.
  int64_t* counts_of(int rank) const;
  int own() const { return membership_.rank; }  // this rank
  int size() const { return membership_.size(); }

  // Shows that this rank is present and waits until all peers are. Throws CommError.
  void wait_for_presence(std::chrono::milliseconds timeout);
  // Fills processes_.
  void watch_processes();
  // Returns the slot of `rank` in round `round`.
  std::byte* slot(int rank, uint64_t round) const;
  // Whether the counter is at `count` or past it. Counters may wrap around.
  static bool has_reached(const SharedCounter& counter, uint32_t count) {
    return static_cast<int32_t>(counter.value() - count) >= 0;
  }
  // Whether the counters of all peers have reached `count`.
  bool have_reached(SharedCounter RankState::*counter, uint32_t count) const;
  // Waits until the counters of all peers have reached `count`. Throws CallFailure if a rank is
  // lost or the deadline passes.
  void wait_until_all_reach(SharedCounter RankState::*counter, uint32_t count,
                            const Deadline& deadline);
  // Waits likewise for the counter of one rank.
  void wait_until_reached(int rank, SharedCounter RankState::*counter, uint32_t count,
                          const Deadline& deadline);
  // Returns the value that `taken` of all peers must reach before this rank may write its slot of
  // round `round`: the peers must have read round `round` - kSlots, which used the same slot. + 1,
  // because `taken` is the number of rounds read, and rounds are numbered from 0.
  static uint32_t taken_needed_for(uint64_t round) {
    return static_cast<uint32_t>(round) - kSlots + 1;
  }
  // Ends a phase of this rank.
  void raise_phase();
  // Ends a phase of this rank and waits until all peers have ended it.
  void end_phase(const Deadline& deadline);
  // Whether the tensors of some peers are in regions, but this rank's tensor is in none.
  bool only_peers_share() const;
  // Throws CallFailure if the ranks' calls or counts differ.
  void compare_calls();
  // Called repeatedly while this rank waits for `peer`. Throws CallFailure if the group is closed
  // on this rank, or if failure_reason(peer) gives a reason while over() is false. over(): whether
  // what this rank waits for has happened; a rank may have done it before it left or was lost.
  template <typename Over>
  void check(int peer, const Over& over);
  std::string closed() const;  // a copy of closed_
  // Returns why a wait for `peer` cannot succeed: there is a verdict, a rank is lost, `peer`
  // has left, or other_call() finds another call. Empty if it can succeed.
  std::string failure_reason(int peer) const;
  bool process_has_ended(int rank) const;
  // Returns an error message if a peer shows a collective that differs from this rank's collective
  // with the same ordinal; otherwise empty.
  std::string other_call() const;
  // Writes the verdict unless another rank has written it, and throws `failure`.
  [[noreturn]] void fail(const CallFailure& failure);
  Call read_call(const ShownCall& shown) const;

  SharedMemory memory_;
  Membership membership_;
  bool cores_to_spare_;  // whether this host has a core for each rank of the group
  // By rank: pidfd of the process, readable when the process ends; -1 if there is none.
  std::vector<int> processes_;
  uint32_t phase_ = 0;        // number of phases that this rank has ended
  uint64_t round_ = 0;        // number of the current round
  uint64_t ordinal_ = 0;      // number of collectives that this rank has shown
  Call call_;                 // the last collective that this rank has shown
  bool announced_ = false;    // whether the current call is a collective
  bool compared_ = true;      // whether the ranks' calls of call_ have been compared
  mutable std::mutex mutex_;  // guards closed_, which any thread may set
  std::string closed_;        // the error of later calls; empty: close() was not called
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
    return written < rounds &&
           have_reached(&RankState::taken, taken_needed_for(first_round + written));
  };
  for (int64_t round = 0; round < rounds; ++round) {
    const auto phase = static_cast<uint32_t>(first_phase + round);
    if (written == round) {
      wait_until_all_reach(&RankState::taken, taken_needed_for(round_), deadline);
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
    wait_until_all_reach(&RankState::taken, taken_needed_for(first_round + round), deadline);
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
