// Selective activation recomputation (V. Korthikanti et al. 2022). Results of norms and activation
// functions are cheap to recompute from tensors that are saved for the backward pass anyway. These
// operators announce each such result to a listener (memory/activations.h). The listener may free
// the result after the forward pass and recompute it in the backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace colossal::ops {

// Computes a result again and returns it, bit-identical to the first one. inputs: the tensors that
// were announced with the result, in the same order. Autograd does not record the computation.
using RecomputeFunction = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

class RecomputableResultListener {
 public:
  virtual ~RecomputableResultListener() = default;
  // Called when an operator has computed `result` from `inputs`. compute(inputs) computes `result`
  // again.
  virtual void made(const at::Tensor& result, const std::vector<at::Tensor>& inputs,
                    RecomputeFunction compute) = 0;
};

// While an object of this class exists, `listener` receives the announcements of the thread that
// created the object. If a thread has several of these objects, only the one created last has an
// effect. A null listener means that nothing is notified.
class RecomputableResultScope {
 public:
  explicit RecomputableResultScope(RecomputableResultListener* listener);
  ~RecomputableResultScope();
  RecomputableResultScope(const RecomputableResultScope&) = delete;
  RecomputableResultScope& operator=(const RecomputableResultScope&) = delete;

 private:
  RecomputableResultListener* before_;  // of the enclosing scope; null if there is none
};

// Calls made() of the calling thread's listener, if there is one. An operator calls this in its
// forward pass if gradients are recorded.
void announce_recomputable_result(const at::Tensor& result, const std::vector<at::Tensor>& inputs,
                                  const RecomputeFunction& compute);

}  // namespace colossal::ops
