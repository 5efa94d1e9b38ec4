#include "colossal/ops/norm/norm.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <string>
#include <tuple>

#include "colossal/base/error.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/recomputable_result.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

// Signatures of operators that norm_passes.cpp defines.
using NormSignature = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& weight,
    const OptionalTensor& bias, bool unit_offset, bool centered, double epsilon);
using NormBackwardSignature = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& gradient, const at::Tensor& x, const OptionalTensor& mean,
    const at::Tensor& inverse, const OptionalTensor& weight, bool unit_offset,
    const OptionalTensor& sum_gradient);

auto norm_operator() {
  return find_operator<NormSignature>("colossal::norm");
}

// Returns {x + branch, norm}, or {norm} if branch is undefined. branch, weight, bias: optionals,
// because autograd functions accept undefined tensors only in optionals.
struct Norm : torch::autograd::Function<Norm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const OptionalTensor& given_branch,
                               const OptionalTensor& given_weight, const OptionalTensor& given_bias,
                               bool unit_offset, bool centered, double epsilon) {
    static const auto op = norm_operator();
    const at::Tensor branch = *given_branch, weight = *given_weight, bias = *given_bias;
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [added, y, mean, inverse] =
        op.call(x, branch, weight, bias, unit_offset, centered, epsilon);
    const at::Tensor& input = branch.defined() ? added : x;
    context->save_for_backward({input, weight, mean, inverse});
    context->saved_data["bias"] = bias.defined();
    context->saved_data["unit_offset"] = unit_offset;
    context->set_materialize_grads(false);
    announce_recomputable_result(
        y, {input, weight, bias}, [=](const std::vector<at::Tensor>& inputs) {
          return std::get<1>(
              op.call(inputs[0], {}, inputs[1], inputs[2], unit_offset, centered, epsilon));
        });
    return branch.defined() ? variable_list{added, y} : variable_list{y};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    static const auto op = find_operator<NormBackwardSignature>("colossal::norm_backward");
    const at::Tensor sum_gradient = gradients.size() > 1 ? gradients[0] : at::Tensor();
    const at::Tensor& y_gradient = gradients.back();
    if (!y_gradient.defined()) return {sum_gradient, sum_gradient, {}, {}, {}, {}, {}};
    const variable_list saved = context->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [x_gradient, weight_gradient, bias_gradient] =
        op.call(y_gradient, saved[0], saved[2], saved[3], saved[1],
                context->saved_data["unit_offset"].toBool(), sum_gradient);
    if (!context->saved_data["bias"].toBool()) bias_gradient = at::Tensor();
    const at::Tensor branch_gradient = gradients.size() > 1 ? x_gradient : at::Tensor();
    return {x_gradient, branch_gradient, weight_gradient, bias_gradient, {}, {}, {}};
  }
};

std::string type_and_shape(const at::Tensor& tensor) {
  return fmt::format("{} {}", c10::toString(tensor.scalar_type()), shape_text(tensor));
}

void check(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
           const at::Tensor& bias) {
  for (const at::Tensor& parameter : {weight, bias}) {
    COLOSSAL_CHECK(!parameter.defined() ||
                       (x.dim() > 0 && parameter.dim() == 1 && parameter.size(0) == x.size(-1) &&
                        parameter.scalar_type() == x.scalar_type()),
                   "a norm of {} with a weight or bias {}", type_and_shape(x),
                   type_and_shape(parameter));
  }
  COLOSSAL_CHECK(weight.defined() || !bias.defined(), "a norm with a bias {} and no weight",
                 type_and_shape(bias));
  COLOSSAL_CHECK(
      !branch.defined() || (branch.sizes() == x.sizes() && branch.scalar_type() == x.scalar_type()),
      "{} and a branch {} that joins it", type_and_shape(x), type_and_shape(branch));
}

// Returns {x + branch, norm}; the first is undefined if branch is undefined.
SumAndNorm without_gradient(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                            const at::Tensor& bias, bool unit_offset, bool centered,
                            double epsilon) {
  static const auto op = norm_operator();
  auto [added, y, mean, inverse] = op.call(x, branch, weight, bias, unit_offset, centered, epsilon);
  return {added, y};
}

at::Tensor norm_of(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   bool unit_offset, bool centered, double epsilon) {
  check(x, {}, weight, bias);
  if (!at::GradMode::is_enabled()) {
    return without_gradient(x, {}, weight, bias, unit_offset, centered, epsilon).second;
  }
  return Norm::apply(x, OptionalTensor(at::Tensor()), OptionalTensor(weight), OptionalTensor(bias),
                     unit_offset, centered, epsilon)[0];
}

SumAndNorm norm_of_sum(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                       const at::Tensor& bias, bool unit_offset, bool centered, double epsilon) {
  check(x, branch, weight, bias);
  if (!at::GradMode::is_enabled()) {
    return without_gradient(x, branch, weight, bias, unit_offset, centered, epsilon);
  }
  const variable_list results = Norm::apply(x, OptionalTensor(branch), OptionalTensor(weight),
                                            OptionalTensor(bias), unit_offset, centered, epsilon);
  return {results[0], results[1]};
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                    bool unit_offset) {
  return norm_of(x, weight, {}, unit_offset, /*centered=*/false, epsilon);
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double epsilon, bool unit_offset) {
  return norm_of(x, weight, bias, unit_offset, /*centered=*/true, epsilon);
}

SumAndNorm add_rms_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                        double epsilon, bool unit_offset) {
  return norm_of_sum(x, branch, weight, {}, unit_offset, /*centered=*/false, epsilon);
}

SumAndNorm add_layer_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                          const at::Tensor& bias, double epsilon, bool unit_offset) {
  return norm_of_sum(x, branch, weight, bias, unit_offset, /*centered=*/true, epsilon);
}

}  // namespace colossal::ops
