// One rank's NCCL communicator of one group. NCCL's functions are made not to block, so that every
// wait has a deadline and ends when another thread aborts the communicator.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "colossal/comm/backend.h"
#include "colossal/comm/nccl_interface.h"

namespace colossal::comm {

class NcclCommunicator {
 public:
  // Connects rank `rank` of `size` ranks; all ranks have the same `id`. The current device is the
  // one that the rank uses. Collective. timeout: for the other ranks to come, and to end. Throws
  // CallFailure if they do not come in time.
  NcclCommunicator(const nccl::UniqueId& id, int rank, int size, std::chrono::milliseconds timeout);
  // Waits until the other ranks need this one no longer.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Makes `calls`, which get the communicator and return the first result that is not success, one
  // group of NCCL calls. Returns when they are in their streams. Throws CallFailure if that fails,
  // if the communicator was aborted, or when the deadline passes.
  using Calls = std::function<nccl::Result(nccl::Communicator)>;
  void launch(const Calls& calls, const Deadline& deadline);
  // Returns NCCL's communicator, which the caller then aborts (abort_together()), or null if that
  // was done. Later calls fail. May be called from any thread.
  nccl::Communicator release();
  // Returns what has gone wrong in a call that was launched before; empty: nothing that NCCL knows.
  // May be called from any thread.
  std::string error();

 private:
  // Waits while NCCL answers "in progress" to a function that has returned `result`: mostly for
  // some microseconds, in which a thread of NCCL launches.
  void finish(nccl::Result result, const Deadline& deadline);

  std::chrono::milliseconds timeout_;
  std::mutex mutex_;                          // NCCL's functions take turns
  nccl::Communicator communicator_{nullptr};  // null after release()
};

// Ends all calls of these communicators on the GPU, with whatever is in their tensors by then. NCCL
// waits until all have ended, which those of one communicator may do only after those of another:
// it must be told of all that a rank has at once. Does not wait; a thread of its own does.
void abort_together(std::vector<nccl::Communicator> communicators);

}  // namespace colossal::comm
