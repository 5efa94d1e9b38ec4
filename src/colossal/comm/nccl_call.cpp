#include "colossal/comm/nccl_call.h"

#include <fmt/format.h>

#include <utility>

#include "colossal/base/error.h"
#include "colossal/comm/current_stream.h"

namespace colossal::comm {

bool NcclFailure::record(int64_t call, const std::string& reason, const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (!reason_.empty()) return false;
  call_ = call;
  reason_ = reason;
  message_ = message;
  return true;
}

std::string NcclFailure::reason_of(int64_t call) const {
  const std::lock_guard lock(mutex_);
  if (call_ == kAllCalls || call_ == call) return reason_;
  return "found its group closed by an earlier failure: " + message_;
}

std::string NcclFailure::message() const {
  const std::lock_guard lock(mutex_);
  return message_;
}

NcclCall::NcclCall(Membership membership, const Call& call, int64_t number, Channel channel,
                   std::vector<at::Tensor> tensors, std::shared_ptr<const NcclFailure> failure)
    : membership_(std::move(membership)),
      call_(call),
      number_(number),
      channel_(std::move(channel)),
      tensors_(std::move(tensors)),
      failure_(std::move(failure)),
      begun_(c10::kCUDA),
      ended_(c10::kCUDA) {}

void NcclCall::wait() {
  const std::string reason = failure_->reason_of(number_);
  if (!reason.empty()) throw CommError(message(reason));
  ended_.block(current_stream(ended_.device()));
  tensors_.clear();
}

bool NcclCall::done() {
  return !failure_->message().empty() || has_ended();
}

bool NcclCall::has_passed(const c10::Event& event) noexcept {
  try {
    return event.query();
  } catch (const c10::Error&) {
    return true;
  }
}

std::string NcclCall::message(const std::string& reason) const {
  return fmt::format("{}: {} {}", describe_caller(membership_), describe(call_), reason);
}

}  // namespace colossal::comm
