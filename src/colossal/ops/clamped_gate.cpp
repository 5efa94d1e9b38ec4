#include "colossal/ops/clamped_gate.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/custom_function.h>

#include "colossal/base/error.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Clamped {
  at::Tensor gate, up;

  Clamped(const at::Tensor& pairs, double limit)
      : gate(pairs.select(-1, 0).clamp_max(limit)), up(pairs.select(-1, 1).clamp(-limit, limit)) {}
};

struct Gate : torch::autograd::Function<Gate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& pairs,
                            const ClampedGate& options) {
    context->save_for_backward({pairs});
    context->saved_data["slope"] = options.slope;
    context->saved_data["limit"] = options.limit;
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const Clamped given(pairs.unflatten(-1, {-1, 2}), options.limit);
    return (given.up + 1) * given.gate * at::sigmoid(given.gate * options.slope);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const double slope = context->saved_data["slope"].toDouble();
    const double limit = context->saved_data["limit"].toDouble();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor pairs = context->get_saved_variables()[0].unflatten(-1, {-1, 2});
    const Clamped given(pairs, limit);
    const at::Tensor sigmoid = at::sigmoid(given.gate * slope);
    const at::ScalarType type = pairs.scalar_type();
    const at::Tensor gate_passes = pairs.select(-1, 0).le(limit).to(type);
    const at::Tensor up_passes = pairs.select(-1, 1).abs().le(limit).to(type);
    const at::Tensor of_gate = (given.up + 1) * sigmoid * (given.gate * slope * (1 - sigmoid) + 1);
    const at::Tensor& y_gradient = gradients[0];
    return {
        at::stack(
            {y_gradient * of_gate * gate_passes, y_gradient * given.gate * sigmoid * up_passes}, -1)
            .flatten(-2),
        {}};
  }
};

}  // namespace

at::Tensor clamped_gate(const at::Tensor& pairs, const ClampedGate& options) {
  COLOSSAL_CHECK(pairs.size(-1) % 2 == 0, "{} features of gate and up", pairs.size(-1));
  return Gate::apply(pairs, options);
}

}  // namespace colossal::ops
