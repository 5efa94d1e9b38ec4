#include "colossal/ops/product/fused_linear.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/ops/deferred_gradients.h"
#include "colossal/ops/norm/sum_rows.h"
#include "colossal/ops/product/few_rows.h"
#include "colossal/ops/product/product.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Calls visit(i, columns) for each weight i, with the columns of y that belong to it.
template <typename Visit>
void visit_columns(const at::Tensor& y, const std::vector<int64_t>& out_features,
                   const Visit& visit) {
  int64_t begin = 0;
  for (size_t i = 0; i < out_features.size(); ++i) {
    visit(i, y.narrow(1, begin, out_features[i]));
    begin += out_features[i];
  }
}

std::vector<int64_t> out_features_of(const std::vector<at::Tensor>& weights) {
  std::vector<int64_t> out_features;
  for (const at::Tensor& weight : weights) out_features.push_back(weight.size(0));
  return out_features;
}

// Returns fused_product() of x [.., in]: [.., sum of out].
at::Tensor shaped_product(const at::Tensor& x, const FusedWeights& given) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = given.out_features();
  return fused_product(x.flatten(0, -2), given).view(sizes);
}

struct FusedLinear : torch::autograd::Function<FusedLinear> {
  // at::TensorList is the only type of list whose elements autograd records.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, at::TensorList weights,
                            at::TensorList biases) {
    variable_list saved{any_requires_grad(weights) ? x : at::Tensor()};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(saved);
    context->saved_data["biases"] = !biases.empty();
    context->saved_data["sizes"] = x.sizes();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return shaped_product(x, {weights.vec(), biases.vec()});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const std::vector<at::Tensor> weights(saved.begin() + 1, saved.end());
    const bool biases = context->saved_data["biases"].toBool();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor y_gradient = gradients[0].flatten(0, -2);
    variable_list result(1 + weights.size() * (biases ? 2 : 1));
    if (context->needs_input_grad(0)) {
      result[0] = fused_input_gradient(y_gradient, weights)
                      .view(context->saved_data["sizes"].toIntVector());
    }
    FusedGradientRequest made{
        .out_features = out_features_of(weights), .transposed = {}, .wanted = {}};
    for (size_t i = 1; i < result.size(); ++i) made.wanted.push_back(context->needs_input_grad(i));
    if (std::ranges::find(made.wanted, true) == made.wanted.end()) return result;
    // Each gradient is computed in the memory order of its weight; otherwise autograd would copy
    // it.
    for (const at::Tensor& weight : weights) made.transposed.push_back(weight.stride(1) != 1);
    const auto compute = [=, given = saved[0]] {
      const at::Tensor x = given.defined() ? given.flatten(0, -2) : given;
      std::vector<at::Tensor> of_weights = fused_weight_gradients(y_gradient, x, made);
      for (size_t i = 0; i < made.transposed.size(); ++i) {
        if (made.transposed[i] && made.wanted[i]) of_weights[i] = of_weights[i].t();
      }
      return of_weights;
    };
    if (DeferredGradients* const later = DeferredGradients::of_this_thread()) {
      later->defer_gradients(1, compute);
    } else {
      std::ranges::move(compute(), result.begin() + 1);
    }
    return result;
  }
};

}  // namespace

int64_t FusedWeights::out_features() const {
  int64_t features = 0;
  for (const at::Tensor& weight : weights) features += weight.size(0);
  return features;
}

bool any_requires_grad(at::TensorList weights) {
  return std::ranges::any_of(weights,
                             [](const at::Tensor& weight) { return weight.requires_grad(); });
}

at::Tensor fused_product(const at::Tensor& x, const FusedWeights& given) {
  at::Tensor y = at::empty({x.size(0), given.out_features()}, x.options());
  if (are_few_rows(x, given.weights)) {
    few_rows_product(y, x, given.weights, given.biases);
    return y;
  }
  visit_columns(y, out_features_of(given.weights), [&](size_t i, const at::Tensor& columns) {
    product_out(columns, x, given.weights[i].t(),
                given.biases.empty() ? at::Tensor() : given.biases[i]);
  });
  return y;
}

at::Tensor fused_input_gradient(const at::Tensor& y_gradient,
                                const std::vector<at::Tensor>& weights) {
  at::Tensor result;
  visit_columns(y_gradient, out_features_of(weights), [&](size_t i, const at::Tensor& columns) {
    if (result.defined()) {
      add_matrix_product(result, columns, weights[i]);
    } else {
      result = product(columns, weights[i]);
    }
  });
  return result;
}

FusedGradientRequest FusedGradientRequest::all(std::vector<int64_t> out_features, bool with_biases,
                                               bool transposed) {
  const size_t weights = out_features.size();
  return {.out_features = std::move(out_features),
          .transposed = std::vector<bool>(weights, transposed),
          .wanted = std::vector<bool>(weights * (with_biases ? 2 : 1), true)};
}

std::vector<at::Tensor> fused_weight_gradients(const at::Tensor& y_gradient, const at::Tensor& x,
                                               const FusedGradientRequest& gradients) {
  const auto& [out_features, transposed, wanted] = gradients;
  std::vector<at::Tensor> made(wanted.size());
  visit_columns(y_gradient, out_features, [&](size_t i, const at::Tensor& columns) {
    if (wanted[i]) made[i] = transposed[i] ? product(x.t(), columns) : product(columns.t(), x);
    const size_t bias = out_features.size() + i;
    if (bias < wanted.size() && wanted[bias]) made[bias] = sum_rows(columns);
  });
  return made;
}

at::Tensor fused_linear(const at::Tensor& x, const FusedWeights& given) {
  COLOSSAL_CHECK(!given.weights.empty() &&
                     (given.biases.empty() || given.biases.size() == given.weights.size()),
                 "{} weights, {} biases", given.weights.size(), given.biases.size());
  if (!at::GradMode::is_enabled()) return shaped_product(x, given);
  return FusedLinear::apply(x, at::TensorList(given.weights), at::TensorList(given.biases));
}

}  // namespace colossal::ops
