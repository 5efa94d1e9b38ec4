// A thread of each rank that looks after its NCCL calls: it ends those that take too long, and says
// which rank they waited for; it learns when other ranks fail, and tells them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "colossal/comm/nccl_call.h"
#include "colossal/comm/store.h"

namespace colossal::comm {

class NcclBackend;

// How far a rank has come in a channel (NcclCall::Channel).
struct NcclProgress {
  int64_t launched = 0;  // calls that the host has launched
  int64_t begun = 0;     // calls that the GPU has come to
  std::string call;      // the last of those, as describe_fully() says
  bool operator==(const NcclProgress&) const = default;
};

// Thread-safe.
class NcclWatch {
 public:
  // store: through which the ranks tell each other of progress and failures. timeout: of calls.
  NcclWatch(StorePointer store, int rank, std::chrono::milliseconds timeout);
  ~NcclWatch();
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

  // Begins and ends looking after a backend. remove() waits until nobody looks at it.
  void add(NcclBackend& backend);
  void remove(NcclBackend& backend);

  // Throws CommError if any call of this rank is known to have failed. Calls that have ended before
  // check() is called are known by then.
  void check();
  // Throws CommError if any call of any rank has failed before it has ended on this rank: what it
  // has left here may then be nonsense, too. Asks the store, which takes some time.
  void check_all_ranks();
  // Ends all calls of this rank, because of a failure that was recorded in the group that has it:
  // tells the other ranks, records the failure in the other groups, and aborts all communicators.
  void end_rank(const std::string& message);
  // Likewise, after recording in all groups that the rank has aborted.
  void abort(const std::string& why);
  // Returns why a call that has begun takes long: which of the group's ranks has not come to it, or
  // which has made another call. group: the name, equal on all ranks.
  std::string reason_of_wait(const std::string& group, const Membership& membership,
                             const NcclCall& call);

 private:
  using Channels = std::map<std::string, NcclProgress>;  // by group's name and channel

  void run();
  void look_at_calls();
  void exchange_news();
  void publish_progress();
  void read_failures();
  void tell_peers(const std::string& why);
  Channels progress_of(int rank);

  StorePointer store_;
  int rank_;
  std::chrono::milliseconds look_every_, exchange_every_;

  std::mutex looking_;  // held while the thread looks at backends
  std::mutex mutex_;    // guards what follows; may be locked while looking_ is held
  std::condition_variable changed_;
  std::vector<NcclBackend*> backends_;
  bool stopping_ = false;

  std::string published_;  // of the thread only
  std::mutex reading_;     // guards failures_read_
  int64_t failures_read_ = 0;

  std::thread thread_;
};

}  // namespace colossal::comm
