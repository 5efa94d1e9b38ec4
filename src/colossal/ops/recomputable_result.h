// Results of operators, such as norms and activation functions, that are cheap to recompute from
// tensors that are saved for backward anyway. A listener may free such results after the forward
// pass and recompute them in the backward pass (V. Korthikanti et al. 2022, "selective activation
// recomputation").
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace colossal::ops {

// Recomputes a result from its inputs, bit-identically. `inputs` are in the order in which the
// result was announced. Autograd does not record it.
using ComputeAgain = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

class RecomputableResultListener {
 public:
  virtual ~RecomputableResultListener() = default;
  // Called when an operator has computed `result` from `inputs`. `compute` computes it again.
  virtual void made(const at::Tensor& result, const std::vector<at::Tensor>& inputs,
                    ComputeAgain compute) = 0;
};

// While a scope exists, its listener is notified of the recomputable results on the thread that
// made the scope. Of several scopes on a thread, only the innermost counts. Null: no listener.
class RecomputableResultScope {
 public:
  explicit RecomputableResultScope(RecomputableResultListener* listener);
  ~RecomputableResultScope();
  RecomputableResultScope(const RecomputableResultScope&) = delete;
  RecomputableResultScope& operator=(const RecomputableResultScope&) = delete;

 private:
  RecomputableResultListener* before_;
};

// Notifies the calling thread's listener, if there is one. Called by an operator that has computed
// `result` for a backward pass.
void announce_recomputable_result(const at::Tensor& result, const std::vector<at::Tensor>& inputs,
                                  const ComputeAgain& compute);

}  // namespace colossal::ops
