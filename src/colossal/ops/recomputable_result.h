// Results that cost little to compute again from tensors which the backward pass keeps anyway:
// norms and activation functions. Memory managers may drop them between the passes (V. Korthikanti
// et al. 2022, "selective activation recomputation").
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace colossal::ops {

// Computes the result from its inputs, in order, below autograd: the same bits as before.
using ComputeAgain = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

class RecomputableResultListener {
 public:
  virtual ~RecomputableResultListener() = default;
  virtual void made(const at::Tensor& result, const std::vector<at::Tensor>& inputs,
                    ComputeAgain compute) = 0;
};

// While one lives, the listener hears of this thread's recomputable results; null: nobody does.
class RecomputableResultScope {
 public:
  explicit RecomputableResultScope(RecomputableResultListener* listener);
  ~RecomputableResultScope();
  RecomputableResultScope(const RecomputableResultScope&) = delete;
  RecomputableResultScope& operator=(const RecomputableResultScope&) = delete;

 private:
  RecomputableResultListener* before_;
};

// Called by whoever makes such a result.
void announce_recomputable_result(const at::Tensor& result, const std::vector<at::Tensor>& inputs,
                                  const ComputeAgain& compute);

}  // namespace colossal::ops
