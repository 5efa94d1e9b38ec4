// Records what this thread does while it lives.
//
//   Recorder recorder(world.ledger(), at::kMeta);
//   ... the program ...
//   Recording recording = recorder.take();
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <map>

#include "colossal/comm/call_listener.h"
#include "colossal/memory/memory_count.h"
#include "colossal/plan/recording.h"

namespace colossal::plan {

class Recorder final : private comm::CallListener {
 public:
  // `ledger`: of the rank's world; must outlive this. `device`: whose memory is counted, the CPU's
  // or meta. One recorder at a time a thread.
  Recorder(comm::Ledger& ledger, at::DeviceType device);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  memory::MemoryLedger& memory() { return memory_.ledger(); }
  // So far.
  int64_t num_operators() const { return std::ssize(recording_.operators); }
  int64_t num_collectives() const { return std::ssize(recording_.collectives); }

  Recording take();

  // For the dispatcher's fallback, which serves the whole process.
  static Recorder* of_this_thread();
  void add(Operator made);

 private:
  void issued(const comm::IssuedCall& call) override;
  size_t index_of(const std::vector<int>& ranks);

  Recording recording_;
  std::map<std::vector<int>, size_t> rank_lists_;
  memory::MemoryCount memory_;
  c10::impl::IncludeDispatchKeyGuard operators_;
};

}  // namespace colossal::plan
