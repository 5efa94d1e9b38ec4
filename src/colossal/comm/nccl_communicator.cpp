#include "colossal/comm/nccl_communicator.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "colossal/comm/nccl_library.h"

namespace colossal::comm {
namespace {

CallFailure failure(nccl::Result result, nccl::Communicator communicator) {
  return CallFailure(fmt::format("failed: NCCL: {}", describe(result, communicator)));
}

bool is_good(nccl::Result result) {
  return result == nccl::Result::success || result == nccl::Result::in_progress;
}

}  // namespace

NcclCommunicator::NcclCommunicator(const nccl::UniqueId& id, int rank, int size,
                                   std::chrono::milliseconds timeout)
    : timeout_(timeout) {
  nccl::Config config;
  config.blocking = 0;
  const nccl::Result result = nccl_functions().init_rank(&communicator_, size, id, rank, &config);
  try {
    finish(result, Deadline(timeout_));
  } catch (const CallFailure&) {
    abort_together({release()});
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  if (!communicator_) return;
  try {
    finish(nccl_functions().finalize(communicator_), Deadline(timeout_));
    nccl_functions().destroy(communicator_);
  } catch (const CallFailure&) {
    abort_together({release()});
  }
}

void NcclCommunicator::launch(const Calls& calls, const Deadline& deadline) {
  nccl::Result result{};
  {
    const std::lock_guard lock(mutex_);
    if (!communicator_) throw CallFailure("failed: its communicator was aborted");
    const nccl::Functions& functions = nccl_functions();
    result = functions.group_start();
    if (result == nccl::Result::success) {
      const nccl::Result of_calls = calls(communicator_);
      result = functions.group_end();
      if (!is_good(of_calls)) result = of_calls;
    }
  }
  finish(result, deadline);
}

void NcclCommunicator::finish(nccl::Result result, const Deadline& deadline) {
  constexpr std::chrono::microseconds kPause{50}, kSpin{200};
  const auto sleep_from = std::chrono::steady_clock::now() + kSpin;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (!is_good(result)) throw failure(result, communicator_);
      if (result == nccl::Result::success) return;
      if (!communicator_) throw CallFailure("failed: its communicator was aborted");
      const nccl::Result asked = nccl_functions().get_async_error(communicator_, &result);
      if (!is_good(asked)) throw failure(asked, communicator_);
      if (result == nccl::Result::success) return;
    }
    if (deadline.passed()) throw deadline.failure("NCCL did not connect all ranks");
    if (std::chrono::steady_clock::now() < sleep_from) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

nccl::Communicator NcclCommunicator::release() {
  const std::lock_guard lock(mutex_);
  return std::exchange(communicator_, nullptr);
}

std::string NcclCommunicator::error() {
  const std::lock_guard lock(mutex_);
  if (!communicator_) return "";
  nccl::Result error{};
  const nccl::Result asked = nccl_functions().get_async_error(communicator_, &error);
  if (is_good(asked)) return is_good(error) ? "" : describe(error, communicator_);
  return describe(asked, communicator_);
}

void abort_together(std::vector<nccl::Communicator> communicators) {
  std::erase(communicators, nullptr);
  if (communicators.empty()) return;
  std::thread([communicators = std::move(communicators)] {
    nccl_functions().group_start();
    for (const nccl::Communicator communicator : communicators) {
      nccl_functions().abort(communicator);
    }
    nccl_functions().group_end();
  }).detach();
}

}  // namespace colossal::comm
