// Results that are cheap to recompute from tensors that the backward pass saves anyway: norms and
// activation functions. Memory managers may drop such results between the forward and the backward
// pass (V. Korthikanti et al. 2022, "selective activation recomputation").
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace colossal::ops {

// Recomputes the result from its inputs, given in order, without recording for autograd. The result
// is bit-identical.
using ComputeAgain = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

class RecomputableResultListener {
 public:
  virtual ~RecomputableResultListener() = default;
  virtual void made(const at::Tensor& result, const std::vector<at::Tensor>& inputs,
                    ComputeAgain compute) = 0;
};

// While a scope exists, its listener is notified of this thread's recomputable results. Null: no
// listener.
class RecomputableResultScope {
 public:
  explicit RecomputableResultScope(RecomputableResultListener* listener);
  ~RecomputableResultScope();
  RecomputableResultScope(const RecomputableResultScope&) = delete;
  RecomputableResultScope& operator=(const RecomputableResultScope&) = delete;

 private:
  RecomputableResultListener* before_;
};

// Called by an operator that has computed a recomputable result.
void announce_recomputable_result(const at::Tensor& result, const std::vector<at::Tensor>& inputs,
                                  const ComputeAgain& compute);

}  // namespace colossal::ops
