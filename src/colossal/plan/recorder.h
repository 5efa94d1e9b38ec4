// Records the operators, collectives and memory changes of the calling thread.
//
//   Recorder recorder(world.ledger(), at::kMeta);
//   ... the program ...
//   Recording recording = recorder.take();
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <map>
#include <memory>

#include "colossal/comm/call_listener.h"
#include "colossal/memory/memory_count.h"
#include "colossal/plan/recording.h"

namespace colossal::plan {

class Recorder final : private comm::CallListener {
 public:
  // Records the constructing thread until the destructor runs. ledger: that of the rank's world;
  // must outlive this. device: the device type whose memory is counted, CPU or meta. A thread has
  // at most one recorder at a time.
  Recorder(comm::Ledger& ledger, at::DeviceType device);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  memory::MemoryLedger& memory() { return memory_.ledger(); }
  // Numbers of operators and of collectives recorded so far.
  int64_t num_operators() const { return std::ssize(recording_.operators); }
  int64_t num_collectives() const { return std::ssize(recording_.collectives); }

  // Returns what was recorded. Call once, at the end.
  Recording take();

  // For the dispatcher's fallback, which all threads of the process call for each operator.
  // of_this_thread() returns the recorder of the calling thread; null if there is none.
  static Recorder* of_this_thread();
  void add(Operator made);

 private:
  void issued(const comm::IssuedCall& call) override;
  // Returns the index of a list in Recording::rank_lists; adds the list if it is new.
  size_t index_of(const std::vector<int>& ranks);
  // Indices of two lists of rank_lists: all ranks of a group, and all but this rank. Cached by
  // group, because a list of all ranks is long.
  struct GroupLists {
    size_t ranks = 0, others = 0;
  };
  const GroupLists& lists_of(const std::shared_ptr<const comm::Membership>& group);

  Recording recording_;
  std::map<std::vector<int>, size_t> rank_lists_;
  std::map<std::shared_ptr<const comm::Membership>, GroupLists> group_lists_;
  memory::MemoryCount memory_;
  c10::impl::IncludeDispatchKeyGuard operators_;
};

}  // namespace colossal::plan
