// The interface with which dry runs and memory counts observe the calls that a rank issues.
// Ledger::set_listener() registers the listener.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "colossal/comm/call.h"

namespace colossal::comm {

// A call that a rank has issued in one of its groups.
struct IssuedCall {
  Operation operation = Operation::barrier;
  Reason reason = Reason::control;
  std::shared_ptr<const Membership> group;  // the same object in all calls of a group
  int64_t law_bytes = 0;                    // as booked in the ledger; 0 for a receive
  // The global ranks with which this rank exchanges bytes in this call: the partner of a send or
  // receive, the neighbours in a rotation or in a broadcast's chain, the ranks with non-empty parts
  // in an all-to-all. nullopt: all other ranks of the group (reductions and gathers). NCCL may
  // choose other ranks.
  std::optional<std::vector<int>> partners;
  std::vector<at::Tensor> buffers;  // tensors that the call reads or writes
  bool asynchronous = false;        // whether the caller does not wait for the call at once
};

class CallListener {
 public:
  virtual ~CallListener() = default;
  // Called on the issuing thread for each call in a group of two or more ranks, before the call
  // runs. Not called for barriers and for shared_empty() (group.h).
  virtual void issued(const IssuedCall& call) = 0;
  // Called after issued() for each asynchronous call of a dry run. Returns a function, which the
  // first Work::wait() for this call then calls, on its thread; null: none.
  virtual std::function<void()> when_waited_for() { return nullptr; }
  // Called by shared_empty() (group.h) for new shared memory of `bytes` bytes, which no allocator
  // of LibTorch counts. Returns the DataPtr that the tensor gets: `memory`, or a DataPtr that wraps
  // `memory`, so that the listener learns of its release.
  virtual c10::DataPtr made(c10::DataPtr memory, int64_t bytes) {
    static_cast<void>(bytes);
    return memory;
  }
};

}  // namespace colossal::comm
