// Records the operators, collectives and memory changes of the calling thread, in a real run or a
// dry run. Used by record_step() (recorded_step.h):
//
//   Recorder recorder(world.ledger(), at::kMeta);
//   ... the code to record ...
//   Recording recording = recorder.take();
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>
#include <map>
#include <memory>

#include "colossal/comm/call_listener.h"
#include "colossal/memory/memory_count.h"
#include "colossal/plan/recording.h"

namespace colossal::plan {

class Recorder final : private comm::CallListener {
 public:
  // Starts to record the constructing thread; the destructor, which must run on the same thread,
  // ends recording. ledger: the ledger of the rank's world, which must outlive this object. device:
  // the device type whose memory is counted, CPU or meta. Throws InternalError if the thread
  // already has a recorder.
  Recorder(comm::Ledger& ledger, at::DeviceType device);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // The ledger that counts the recorded thread's memory.
  memory::MemoryLedger& memory() { return memory_.ledger(); }
  // Return the numbers of operators and of collectives recorded so far.
  int64_t num_operators() const { return std::ssize(recording_.operators); }
  int64_t num_collectives() const { return std::ssize(recording_.collectives); }

  // Returns what was recorded since construction. Call it once, at the end.
  Recording take();

  // For the dispatcher's fallback in recorder.cpp only. LibTorch may also call the fallback on
  // threads without a recorder. of_this_thread() returns the recorder of the calling thread; null
  // if there is none. add() appends an operator.
  static Recorder* of_this_thread();
  void add(Operator made);

 private:
  void issued(const comm::IssuedCall& call) override;
  std::function<void()> when_waited_for() override;
  // Returns the index of a list in Recording::rank_lists; adds the list if it is new.
  size_t index_of(const std::vector<int>& ranks);
  // Indices in Recording::rank_lists of two lists for a group: of all its ranks, and of all its
  // ranks except this rank. Cached by group, because the lists may be long.
  struct GroupLists {
    size_t ranks = 0, others = 0;
  };
  const GroupLists& lists_of(const std::shared_ptr<const comm::Membership>& group);

  Recording recording_;
  std::map<std::vector<int>, size_t> rank_lists_;  // list -> its index in Recording::rank_lists
  std::map<std::shared_ptr<const comm::Membership>, GroupLists> group_lists_;
  memory::MemoryCount memory_;
  c10::impl::IncludeDispatchKeyGuard operators_;  // sends this thread's operators to the fallback
};

}  // namespace colossal::plan
