#include "colossal/parallel/tensor/shared_norm.h"

#include <optional>

#include "colossal/nn/layer_scope.h"
#include "colossal/ops/norm/norm_passes.h"
#include "colossal/ops/recomputable_result.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/saved_group.h"

namespace colossal::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

// Turns sums over this rank's features into means over all `features` features, in place.
at::Tensor mean_over_ranks(const at::Tensor& sums, int64_t features, const comm::Group& group) {
  if (sums.numel() > 0) comm::all_reduce(sums.view(-1), group, comm::Reason::tensor);
  return sums.div_(static_cast<double>(features));
}

// branch, weight, bias: may be undefined; autograd accepts an undefined tensor only as an optional.
// Returns {sum, norm} if there is a branch, else {norm}.
struct SharedNorm : torch::autograd::Function<SharedNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const OptionalTensor& given_branch,
                               const OptionalTensor& given_weight, const OptionalTensor& given_bias,
                               const SharedNormOptions& options, const comm::Group* group) {
    const at::Tensor branch = *given_branch, weight = *given_weight, bias = *given_bias;
    const int64_t features = options.features;
    const bool unit_offset = options.unit_offset;
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    at::Tensor mean, added;
    ops::RowSums squares;
    if (options.centered) {
      const ops::RowSums totals = ops::row_sums(x, branch);
      added = totals.added;
      mean = mean_over_ranks(totals.sums, features, *group);
      squares = ops::squared_deviations(branch.defined() ? added : x, {}, mean);
    } else {
      squares = ops::squared_deviations(x, branch, {});
      added = squares.added;
    }
    const at::Tensor& input = branch.defined() ? added : x;
    const at::Tensor inverse =
        mean_over_ranks(squares.sums, features, *group).add_(options.epsilon).rsqrt_();
    context->save_for_backward({input, weight, mean, inverse});
    context->saved_data["features"] = features;
    context->saved_data["bias"] = bias.defined();
    context->saved_data["unit_offset"] = unit_offset;
    save_group(context, *group);
    context->set_materialize_grads(false);
    const at::Tensor y = ops::normalize(input, mean, inverse, weight, bias, unit_offset);
    // The statistics are saved, so recomputation of the norm communicates nothing.
    ops::announce_recomputable_result(y, {input, mean, inverse, weight, bias},
                                      [unit_offset](const std::vector<at::Tensor>& inputs) {
                                        return ops::normalize(inputs[0], inputs[1], inputs[2],
                                                              inputs[3], inputs[4], unit_offset);
                                      });
    return branch.defined() ? variable_list{added, y} : variable_list{y};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const bool has_branch = gradients.size() > 1;
    const at::Tensor sum_gradient = has_branch ? gradients[0] : at::Tensor();
    const at::Tensor& y_gradient = gradients.back();
    if (!y_gradient.defined()) return {sum_gradient, sum_gradient, {}, {}, {}, {}};
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3];
    const bool unit_offset = context->saved_data["unit_offset"].toBool();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const ops::NormGradientSums of_ranks =
        ops::norm_gradient_sums(y_gradient, x, mean, inverse, weight, unit_offset);
    const at::Tensor means = mean_over_ranks(of_ranks.sums, context->saved_data["features"].toInt(),
                                             saved_group(context));
    const at::Tensor x_gradient = ops::norm_input_gradient(y_gradient, x, mean, inverse, weight,
                                                           unit_offset, means, sum_gradient);
    const bool has_bias = context->saved_data["bias"].toBool();
    return {x_gradient,
            has_branch ? x_gradient : at::Tensor(),
            of_ranks.weight_gradient,
            has_bias ? of_ranks.bias_gradient : at::Tensor(),
            {},
            {}};
  }
};

}  // namespace

at::Tensor shared_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const SharedNormOptions& options, const comm::Group& group) {
  return SharedNorm::apply(x, OptionalTensor(at::Tensor()), OptionalTensor(weight),
                           OptionalTensor(bias), options, &group)[0];
}

std::pair<at::Tensor, at::Tensor> add_shared_norm(const at::Tensor& x, const at::Tensor& branch,
                                                  const at::Tensor& weight, const at::Tensor& bias,
                                                  const SharedNormOptions& options,
                                                  const comm::Group& group) {
  const variable_list results = SharedNorm::apply(x, OptionalTensor(branch), OptionalTensor(weight),
                                                  OptionalTensor(bias), options, &group);
  return {results[0], results[1]};
}

at::Tensor SharedNormLayer::forward(const at::Tensor& x, const nn::StepContext&) {
  nn::LayerScope scope(parts_.name);
  const auto [weight, bias] = parts_.use(scope);
  return shared_norm(x, weight, bias, options(), group_);
}

std::pair<at::Tensor, at::Tensor> SharedNormLayer::add_forward(const at::Tensor& x,
                                                               const at::Tensor& branch,
                                                               const nn::StepContext&) {
  nn::LayerScope scope(parts_.name);
  const auto [weight, bias] = parts_.use(scope);
  return add_shared_norm(x, branch, weight, bias, options(), group_);
}

}  // namespace colossal::parallel
