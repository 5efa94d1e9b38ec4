// Where the ranks of a group meet that are threads of one process: a barrier with a deadline, at
// which each rank shows the others its call and its memory; and a queue of messages for each pair
// of ranks. All ranks are numbered within the group.
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
  // The state that a rank shows; peers may read it from arrive() to leave().
  struct RankState {
    Call call;
    std::byte* memory = nullptr;
    std::vector<int64_t> send_counts = {};     // of its parts; empty where the call has none
    std::vector<int64_t> receive_counts = {};  // all_to_all only
    Ledger* ledger = nullptr;                  // who reads this memory books it here
  };

  // A message: it lies in the sender's memory until the receiver has copied it.
  struct Message {
    enum State { posted, taken, delivered };
    const void* memory = nullptr;
    int64_t bytes = 0;
    int from = 0;
    int to = 0;
    State state = posted;
  };

  // `ranks`: global numbers in group order, for names in errors.
  explicit LocalBoard(std::vector<int> ranks);

  // Shows `state` and waits until all ranks have come. Throws CallFailure when some do not before
  // `deadline`, when a member is lost, or when the ranks' calls do not match. Once it returned,
  // every rank must go through the same number of meet() and then leave().
  void arrive(int rank, RankState state, const Deadline& deadline);
  const RankState& state_of(int rank) const { return states_[rank]; }
  // A barrier without deadline: it ends by itself, since ranks only copy and add before it. That
  // none leaves early, not even when aborted, is what makes reading each other's memory safe.
  void meet();
  void leave() { meet(); }

  void post(Message& message);
  void withdraw(Message& message);  // waits where the receiver is copying already
  void wait_delivered(Message& message, const Deadline& deadline);
  // Copies the first message from `from` to `to`, which must have this size, into `memory`.
  void take(void* memory, int64_t bytes, int from, int to, const Deadline& deadline);

  // After either, no call can succeed: one rank is gone, or a call failed.
  void lose(int rank, const std::string& why);
  void close(const std::string& why);

 private:
  bool count_in();  // whether this rank was the last, which opens the gate
  void spin_until_open(uint64_t generation) const;
  // Why `rank` cannot go on waiting for `peer` (-1: for any); empty: it can.
  std::string trouble(int rank, int peer) const;
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
  std::atomic<uint64_t> generation_ = 0;  // grows when the gate opens
  std::string closed_;                    // why; empty: open for calls
  std::vector<std::string> lost_;         // by rank, likewise
  std::vector<std::deque<Message*>> messages_;
};

}  // namespace colossal::comm
