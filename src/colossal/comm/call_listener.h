// Is told of every call of a rank, except barriers, in the order in which calls are issued. Dry
// runs and audits use it.
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
  std::shared_ptr<const Membership> group;  // one for all calls of a group
  int64_t law_bytes = 0;                    // as booked in the ledger
  // The global ranks with which this rank exchanges bytes in our own algorithms: the neighbours in
  // a rotation or in a broadcast's chain, or the ranks with a part in an all-to-all. None: all
  // other ranks of the group, as in reductions and gathers.
  std::optional<std::vector<int>> partners;
  std::vector<at::Tensor> buffers;  // read or written
};

class CallListener {
 public:
  virtual ~CallListener() = default;
  virtual void issued(const IssuedCall& call) = 0;
  // `memory` of `bytes` for a tensor of this thread, which no allocator of LibTorch has seen: may
  // be wrapped to hear of its release.
  virtual c10::DataPtr made(c10::DataPtr memory, int64_t bytes) {
    static_cast<void>(bytes);
    return memory;
  }
};

}  // namespace colossal::comm
