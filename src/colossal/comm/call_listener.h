// Observes every call of a rank except barriers, in the order in which calls are issued. Used by
// dry runs and audits.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "colossal/comm/call.h"

namespace colossal::comm {

struct IssuedCall {
  Operation operation = Operation::barrier;
  Reason reason = Reason::control;
  std::shared_ptr<const Membership> group;  // shared by all calls of a group
  int64_t law_bytes = 0;                    // as booked in the ledger
  // The global ranks with which Colossal's own algorithms exchange bytes in this call: the
  // neighbours in a rotation or in a broadcast's chain, or the ranks with a part in an all-to-all.
  // nullopt: all other ranks of the group, as in reductions and gathers.
  std::optional<std::vector<int>> partners;
  std::vector<at::Tensor> buffers;  // tensors that the call reads or writes
};

class CallListener {
 public:
  virtual ~CallListener() = default;
  virtual void issued(const IssuedCall& call) = 0;
  // Called by shared_empty(), on its thread, with new `memory` of `bytes` bytes that no allocator
  // of LibTorch has counted. Returns `memory`, possibly wrapped so that the listener learns of its
  // release.
  virtual c10::DataPtr made(c10::DataPtr memory, int64_t bytes) {
    static_cast<void>(bytes);
    return memory;
  }
};

}  // namespace colossal::comm
