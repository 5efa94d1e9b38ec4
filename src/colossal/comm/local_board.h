// The meeting point of a group whose ranks are threads of one process: a barrier with a deadline,
// at which each rank shows its call and its memory to the others, and a message queue per pair of
// ranks. Ranks are numbered within the group.
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
  // The state that a rank shows. Peers may read it between arrive() and leave().
  struct RankState {
    Call call;
    std::byte* memory = nullptr;               // of the tensor that peers read
    std::vector<int64_t> send_counts = {};     // elements of its parts; empty: no parts
    std::vector<int64_t> receive_counts = {};  // all_to_all only
    Ledger* ledger = nullptr;                  // readers of this memory book in this ledger
  };

  // A message. Its bytes stay in the sender's memory until the receiver has copied them.
  struct Message {
    // posted: not received yet. taken: the receiver copies it. delivered: the receiver has copied
    // it.
    enum State { posted, taken, delivered };
    const void* memory = nullptr;
    int64_t bytes = 0;
    int from = 0;
    int to = 0;
    State state = posted;
  };

  // ranks: global ranks in group order, for the names in errors.
  explicit LocalBoard(std::vector<int> ranks);

  // Shows `state` and waits until all ranks have arrived. Throws CallFailure if a rank does not
  // arrive before `deadline`, if a rank is lost, or if the ranks' calls do not match. After it has
  // returned, every rank must call meet() equally often and then leave().
  void arrive(int rank, RankState state, const Deadline& deadline);
  const RankState& state_of(int rank) const { return states_[rank]; }
  // A barrier without a deadline: it always ends, since between barriers ranks only copy and add.
  // No rank passes it early, not even when aborted; so ranks may safely read each other's memory.
  void meet();
  void leave() { meet(); }

  void post(Message& message);
  void withdraw(Message& message);  // if the receiver is already copying, waits for it
  void wait_delivered(Message& message, const Deadline& deadline);
  // Waits for the first posted message from `from` to `to` and copies it into `memory`. Throws
  // InternalError if its size is not `bytes`.
  void take(void* memory, int64_t bytes, int from, int to, const Deadline& deadline);

  // Make all later calls fail: lose() because a rank is gone, close() because a call failed.
  void lose(int rank, const std::string& why);
  void close(const std::string& why);

 private:
  bool count_in();  // returns whether this rank was the last, which opens the barrier
  void spin_until_open(uint64_t generation) const;
  // Returns why `rank` cannot go on waiting for `peer` (-1: for any rank); empty if it can.
  std::string failure_reason(int rank, int peer) const;
  std::string missing_ranks() const;
  void check_calls_match(int rank) const;
  std::deque<Message*>& messages_between(int from, int to) { return messages_[from * size_ + to]; }

  Membership names_;
  int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RankState> states_;
  std::vector<bool> arrived_;
  int waiting_ = 0;
  std::atomic<uint64_t> generation_ = 0;  // incremented when the barrier opens
  std::string closed_;                    // the reason; empty: open for calls
  std::vector<std::string> lost_;         // by rank: the reason; empty: not lost
  std::vector<std::deque<Message*>> messages_;
};

}  // namespace colossal::comm
