#include "colossal/ops/cheap_result.h"

#include <utility>

namespace colossal::ops {
namespace {

thread_local CheapResultListener* listener_of_thread = nullptr;

}  // namespace

CheapResultScope::CheapResultScope(CheapResultListener* listener)
    : before_(std::exchange(listener_of_thread, listener)) {}

CheapResultScope::~CheapResultScope() {
  listener_of_thread = before_;
}

void tell_cheap_result(const at::Tensor& result, const std::vector<at::Tensor>& inputs,
                       const ComputeAgain& compute) {
  if (listener_of_thread) listener_of_thread->made(result, inputs, compute);
}

}  // namespace colossal::ops
