#include "colossal/ops/recomputable_result.h"

#include <utility>

namespace colossal::ops {
namespace {

thread_local RecomputableResultListener* listener_of_thread = nullptr;

}  // namespace

RecomputableResultScope::RecomputableResultScope(RecomputableResultListener* listener)
    : before_(std::exchange(listener_of_thread, listener)) {}

RecomputableResultScope::~RecomputableResultScope() {
  listener_of_thread = before_;
}

void announce_recomputable_result(const at::Tensor& result, const std::vector<at::Tensor>& inputs,
                                  const RecomputeFunction& compute) {
  if (listener_of_thread) listener_of_thread->made(result, inputs, compute);
}

}  // namespace colossal::ops
