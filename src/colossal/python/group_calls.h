// The calls of one comm::Group as torch.distributed's Work: they run one after the other, in the
// order in which they are issued. A blocking call runs on the issuing thread if no other is queued,
// for low latency; other calls run on a thread of this object, which completes their Work and its
// Future.
//
// Calls fail with c10::DistBackendError (torch.distributed.DistBackendError in Python) where comm
// throws CommError, and with c10::ValueError (ValueError) where it throws ConfigError. A blocking
// call throws when it is issued, others in Work::wait().
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "colossal/comm/work_queue.h"
#include "colossal/python/group_connection.h"

namespace colossal::python {

// Runs `body` and translates its errors as described above. function: for the message.
void translate_errors(const std::string& function, const std::function<void()>& body);

// Thread-safe.
class GroupCalls {
 public:
  using Body = std::function<void(const comm::Group& group)>;
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;

  // Makes the group; fails soon after `abandoned` becomes true, as connect() does.
  using Connect = std::function<GroupConnection(const std::atomic<bool>& abandoned)>;
  // The first call, and connect_now(), call `connect`.
  explicit GroupCalls(Connect connect);
  // Waits until all calls have ended; each ends after the group's timeout at the latest.
  ~GroupCalls() = default;
  GroupCalls(const GroupCalls&) = delete;
  GroupCalls& operator=(const GroupCalls&) = delete;

  void connect_now() { group(); }
  // Issues a call. What a call is, for its Work and its errors:
  struct Call {
    c10d::OpType type;
    std::string function;             // of torch.distributed, such as "all_reduce"
    std::vector<at::Tensor> results;  // of the Work and its Future
    bool asynchronous = true;
  };
  WorkPointer issue(Call call, Body body);

  // Makes running and later calls fail with the reason `why`, and the peers' calls, too.
  void abort(const std::string& why);
  // Whether an asynchronous call has not ended yet.
  bool has_pending() const { return pending_ > 0; }

 private:
  // The group, which is made when this is called for the first time.
  const comm::Group& group();

  Connect connect_;
  std::mutex mutex_;                           // guards the next two
  std::optional<GroupConnection> connection_;  // set once
  std::string aborted_;                        // the reason of abort(); empty: not called
  std::atomic<bool> abandoned_ = false;        // whether abort() was called
  std::atomic<int> pending_ = 0;               // asynchronous calls whose Work is not complete
  comm::WorkQueue queue_;                      // destroyed first, because queued calls use the rest
};

}  // namespace colossal::python
