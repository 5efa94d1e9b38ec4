// What the ranks of a group share if they are threads of one process: a barrier at which each rank
// shows its call and its memory to the others, and a message queue for each pair of ranks.
// LocalBackend (local.cpp) runs collectives with the barrier, MessageBackend (local_messages.h)
// sends with the queues. All ranks of a group use one LocalBoard. `rank`, `from` and `to` are ranks
// within the group.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "colossal/comm/backend.h"
#include "colossal/comm/call.h"

namespace colossal::comm {

class LocalBoard {
 public:
  // What a rank shows to its peers. They may read it between arrive() and leave().
  struct RankState {
    Call call;
    std::byte* memory = nullptr;  // start of the tensor that peers read
    // Numbers of elements of the tensor's parts, one part per rank; empty: the tensor is not
    // divided.
    std::vector<int64_t> send_counts = {};
    std::vector<int64_t> receive_counts = {};  // elements expected from each rank; all_to_all only
    Ledger* ledger = nullptr;  // of this rank; peers book in it the bytes that they read
  };

  // A message. Its bytes stay in the sender's memory until the receiver has copied them.
  struct Message {
    enum State {
      posted,    // the receiver has not begun to copy it
      taken,     // the receiver is copying it
      delivered  // the receiver has copied it
    };
    const void* memory = nullptr;  // of the sender
    int64_t bytes = 0;
    int from = 0;
    int to = 0;
    State state = posted;
  };

  // ranks: the group's global ranks, in group order. Errors name ranks with them.
  explicit LocalBoard(std::vector<int> ranks);

  // Begins a collective of rank `rank`: shows `state` and waits until all ranks have arrived.
  // Throws CallFailure if a rank does not arrive before the deadline, if a rank is lost, or if the
  // ranks' calls or counts do not match. After arrive() has returned, every rank must call meet()
  // equally often, then leave() once.
  void arrive(int rank, RankState state, const Deadline& deadline);
  // Returns what `rank` has shown. Valid between arrive() and leave().
  const RankState& state_of(int rank) const { return states_[rank]; }
  // A barrier between arrive() and leave(). It needs no deadline, because ranks do not wait for
  // anything else in between. Even a rank that is lost waits, so peers may safely read its memory.
  void meet();
  // Ends the collective: the barrier after which peers read no state and memory of this rank.
  void leave() { meet(); }

  // Offers a message to its receiver. `message` must live until it is delivered or withdrawn.
  void post(Message& message);
  // Takes back a message that the receiver has not begun to copy. If the receiver is copying it,
  // waits until it is delivered. If it is delivered, does nothing.
  void withdraw(Message& message);
  // Waits until a posted message is delivered. Throws CallFailure if the receiver is lost or does
  // not take the message before the deadline.
  void wait_delivered(Message& message, const Deadline& deadline);
  // Waits for the first message posted by `from` to `to` and copies it into `memory`. Throws
  // CallFailure if `from` is lost or posts none before the deadline, and InternalError if the
  // message's size is not `bytes`.
  void take(void* memory, int64_t bytes, int from, int to, const Deadline& deadline);

  // Marks `rank` as lost for the reason `why`, which is not empty. From then on arrive(),
  // wait_delivered() and take() throw CallFailure instead of waiting: in `rank` itself, and in a
  // rank that would wait for `rank`.
  void lose(int rank, const std::string& why);
  // From then on, makes arrive(), wait_delivered() and take() of all ranks throw CallFailure
  // instead of waiting, because a call has failed for the reason `why`.
  void close(const std::string& why);

 private:
  // Counts a rank at the barrier. Returns whether it was the last rank, which opens the barrier.
  bool count_in();
  // Yields for a short time, or until generation_ differs from `generation`.
  void spin_until_open(uint64_t generation) const;
  // Returns why `rank` cannot go on waiting for `peer` (-1: for any rank); empty if it can.
  std::string failure_reason(int rank, int peer) const;
  std::string missing_ranks() const;  // names of the ranks that have not arrived
  // Throws CallFailure if the states of the ranks do not match. rank: the rank that checks.
  void check_calls_match(int rank) const;
  std::deque<Message*>& messages_between(int from, int to) { return messages_[from * size_ + to]; }

  Membership names_;  // of the ranks, for errors
  int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RankState> states_;
  std::vector<bool> arrived_;
  int waiting_ = 0;                             // number of ranks at the barrier
  std::atomic<uint64_t> generation_ = 0;        // incremented when the barrier opens
  std::string closed_;                          // the reason of close(); empty: not closed
  std::vector<std::string> lost_;               // by rank: the reason of lose(); empty: not lost
  std::vector<std::deque<Message*>> messages_;  // posted messages, by from * size_ + to
};

}  // namespace colossal::comm
