#include "colossal/parallel/shared_norm.h"

#include "colossal/ops/cheap_result.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/saved_group.h"

namespace colossal::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Means over all features of what `sums` holds sums of.
at::Tensor mean_over_ranks(const at::Tensor& sums, int64_t features, const comm::Group& group) {
  if (sums.numel() > 0) comm::all_reduce(sums.view(-1), group, comm::Reason::tensor);
  return sums.div_(static_cast<double>(features));
}

at::Tensor sum_of_features(const at::Tensor& x) {
  return x.sum(-1, /*keepdim=*/true);
}

// mean: undefined for an RMS norm.
at::Tensor normalized(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& inverse) {
  const at::Tensor wide = x.to(inverse.scalar_type());
  return (mean.defined() ? wide - mean : wide) * inverse;
}

at::Tensor over_tokens(const at::Tensor& x) {
  return x.flatten(0, -2).sum(0);
}

struct SharedNorm : torch::autograd::Function<SharedNorm> {
  // parameters: weight and bias, or an RMS norm's weight.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            at::TensorList parameters, double epsilon, int64_t features,
                            const comm::Group* group) {
    const at::Tensor& weight = parameters.front();
    const bool is_layer_norm = parameters.size() == 2;
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor wide = x.to(ops::compute_type(x.scalar_type()));
    at::Tensor mean, centered = wide;
    if (is_layer_norm) {
      mean = mean_over_ranks(sum_of_features(wide), features, *group);
      centered = wide - mean;
    }
    const at::Tensor inverse = mean_over_ranks(sum_of_features(centered.square()), features, *group)
                                   .add_(epsilon)
                                   .rsqrt_();
    context->save_for_backward({x, weight, mean, inverse});
    context->saved_data["features"] = features;
    save_group(context, *group);
    const at::Tensor bias = is_layer_norm ? parameters[1] : at::Tensor();
    const auto scaled = [type = x.scalar_type()](const at::Tensor& normal, const at::Tensor& scale,
                                                 const at::Tensor& shift) {
      const at::Tensor y = normal * scale;
      return (shift.defined() ? y + shift : y).to(type);
    };
    const at::Tensor y = scaled(centered * inverse, weight, bias);
    // The statistics are kept: nothing travels again.
    ops::tell_cheap_result(
        y, {x, weight, bias, mean, inverse}, [scaled](const std::vector<at::Tensor>& inputs) {
          return scaled(normalized(inputs[0], inputs[3], inputs[4]), inputs[1], inputs[2]);
        });
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &inverse = saved[3];
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor y_gradient = gradients[0].to(inverse.scalar_type());
    const at::Tensor normal = normalized(x, mean, inverse);
    const at::Tensor weighted = y_gradient * weight;
    std::vector<at::Tensor> sums{sum_of_features(weighted * normal)};
    if (mean.defined()) sums.push_back(sum_of_features(weighted));
    const at::Tensor means = mean_over_ranks(
        at::stack(sums), context->saved_data["features"].toInt(), saved_group(context));
    at::Tensor x_gradient = weighted - normal * means[0];
    if (mean.defined()) x_gradient = x_gradient - means[1];
    variable_list result{(x_gradient * inverse).to(x.scalar_type()),
                         over_tokens(y_gradient * normal).to(weight.scalar_type())};
    if (mean.defined()) result.push_back(over_tokens(y_gradient).to(weight.scalar_type()));
    result.resize(result.size() + 3);  // none for the numbers and the group
    return result;
  }
};

}  // namespace

at::Tensor shared_layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                             double epsilon, int64_t features, const comm::Group& group) {
  return SharedNorm::apply(x, at::TensorList({weight, bias}), epsilon, features, &group);
}

at::Tensor shared_rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                           int64_t features, const comm::Group& group) {
  return SharedNorm::apply(x, at::TensorList(weight), epsilon, features, &group);
}

}  // namespace colossal::parallel
