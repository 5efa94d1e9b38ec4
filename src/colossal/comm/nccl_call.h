// A call that a rank has launched over NCCL, and why calls of its group fail.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "colossal/comm/backend.h"
#include "colossal/comm/work_state.h"

namespace colossal::comm {

// Why one rank's calls in one group fail. NCCL lets a failed or aborted call end like any other,
// with nonsense in its tensors, so whoever waits for a call looks here. Thread-safe.
class NcclFailure {
 public:
  // In the place of a call's number: all calls fail for this reason; a call has failed that is in
  // flight no more.
  static constexpr int64_t kAllCalls = 0, kEarlierCall = -1;

  // Records a failure, unless there was one before; then returns false. call: number of the call
  // that has failed, from 1, or a constant above. reason: as in CallFailure. message: the whole
  // message.
  bool record(int64_t call, const std::string& reason, const std::string& message);
  // Returns the reason for which the call with this number fails; empty: there was no failure.
  std::string reason_of(int64_t call) const;
  // Returns the whole message; empty: there was no failure.
  std::string message() const;

 private:
  mutable std::mutex mutex_;
  int64_t call_ = kAllCalls;
  std::string reason_, message_;
};

// Made and ended by NcclBackend, on the thread that issues the call; the other functions may be
// called from any thread.
class NcclCall final : public Work::State {
 public:
  // What the ranks count separately: the calls of all ranks of the group, and the messages between
  // two of them.
  struct Channel {
    std::string name;       // "": all ranks; "0>1": messages from rank 0 to rank 1
    int peer = -1;          // the other rank of a message, within the group
    const char* late = "";  // what a peer that is late did not do, such as "did not send"
    int64_t number = 0;     // of the call, from 1
  };

  // tensors: what the call reads and writes. failure: of the group's calls.
  NcclCall(Membership membership, const Call& call, int64_t number, Channel channel,
           std::vector<at::Tensor> tensors, std::shared_ptr<const NcclFailure> failure);

  // Record that the stream comes to the call, and that the call is done there.
  void begin(const c10::Stream& stream) { begun_.record(stream); }
  void end(const c10::Stream& stream) { ended_.record(stream); }

  // Makes the current stream wait for the call. Throws CommError if the call is known to have
  // failed.
  void wait() override;
  bool done() override;

  const Call& call() const { return call_; }
  int64_t number() const { return number_; }  // in the group, from 1
  const Channel& channel() const { return channel_; }
  // After an error of the GPU, everything counts as begun and ended.
  bool has_begun() const noexcept { return has_passed(begun_); }
  bool has_ended() const noexcept { return has_passed(ended_); }
  // Returns the message of an error of this call.
  std::string message(const std::string& reason) const;

 private:
  static bool has_passed(const c10::Event& event) noexcept;

  Membership membership_;
  Call call_;
  int64_t number_;
  Channel channel_;
  // Until somebody has waited: then, memory that is freed is used again after the call only.
  std::vector<at::Tensor> tensors_;
  std::shared_ptr<const NcclFailure> failure_;
  c10::Event begun_, ended_;
};

}  // namespace colossal::comm
