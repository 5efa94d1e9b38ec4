#include "colossal/ops/fused_linear.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/ops/product.h"
#include "colossal/ops/put_off_gradients.h"
#include "colossal/ops/sum_rows.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Calls visit(index, columns of y that are weight index's).
template <typename Visit>
void visit_columns(const at::Tensor& y, const std::vector<at::Tensor>& weights,
                   const Visit& visit) {
  int64_t begin = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    visit(i, y.narrow(1, begin, weights[i].size(0)));
    begin += weights[i].size(0);
  }
}

// [out, in], or [in, out] where `transposed`.
at::Tensor weight_gradient(const at::Tensor& columns, const at::Tensor& x, bool transposed) {
  return transposed ? product(x.t(), columns) : product(columns.t(), x);
}

// Of weights, then of biases where `wanted` has more than the weights: those that are wanted.
std::vector<at::Tensor> gradients_of_weights(const at::Tensor& y_gradient, const at::Tensor& x,
                                             const std::vector<int64_t>& out_features,
                                             const std::vector<bool>& transposed,
                                             const std::vector<bool>& wanted) {
  std::vector<at::Tensor> gradients(wanted.size());
  int64_t begin = 0;
  for (size_t i = 0; i < out_features.size(); ++i) {
    const at::Tensor columns = y_gradient.narrow(1, begin, out_features[i]);
    begin += out_features[i];
    if (wanted[i]) {
      const at::Tensor gradient = weight_gradient(columns, x, transposed[i]);
      gradients[i] = transposed[i] ? gradient.t() : gradient;
    }
    const size_t of_bias = out_features.size() + i;
    if (of_bias < wanted.size() && wanted[of_bias]) gradients[of_bias] = sum_rows(columns);
  }
  return gradients;
}

struct FusedLinear : torch::autograd::Function<FusedLinear> {
  // Only of an at::TensorList does autograd see the elements.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, at::TensorList weights,
                            at::TensorList biases) {
    variable_list saved{x};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(saved);
    context->saved_data["biases"] = !biases.empty();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const FusedWeights given{weights.vec(), biases.vec()};
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = given.out_features();
    return fused_product(x.flatten(0, -2), given).view(sizes);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const std::vector<at::Tensor> weights(saved.begin() + 1, saved.end());
    const bool biases = context->saved_data["biases"].toBool();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor x = saved[0].flatten(0, -2), y_gradient = gradients[0].flatten(0, -2);
    variable_list result(1 + weights.size() * (biases ? 2 : 1));
    if (context->needs_input_grad(0)) {
      result[0] = fused_input_gradient(y_gradient, weights).view(saved[0].sizes());
    }
    std::vector<bool> wanted(result.size() - 1), transposed;
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = context->needs_input_grad(1 + i);
    // In the order of the weight: a copy would follow.
    for (const at::Tensor& weight : weights) transposed.push_back(weight.stride(1) != 1);
    std::vector<int64_t> out_features;
    for (const at::Tensor& weight : weights) out_features.push_back(weight.size(0));
    const auto compute = [=] {
      return gradients_of_weights(y_gradient, x, out_features, transposed, wanted);
    };
    if (PutOffGradients* const later = PutOffGradients::of_this_thread()) {
      later->put_off(1, compute);
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

at::Tensor fused_product(const at::Tensor& x, const FusedWeights& given) {
  at::Tensor y = at::empty({x.size(0), given.out_features()}, x.options());
  visit_columns(y, given.weights, [&](size_t i, const at::Tensor& columns) {
    product_out(columns, x, given.weights[i].t(),
                given.biases.empty() ? at::Tensor() : given.biases[i]);
  });
  return y;
}

at::Tensor fused_input_gradient(const at::Tensor& y_gradient,
                                const std::vector<at::Tensor>& weights) {
  at::Tensor result;
  visit_columns(y_gradient, weights, [&](size_t i, const at::Tensor& columns) {
    if (result.defined()) {
      result.addmm_(columns, weights[i]);
    } else {
      result = product(columns, weights[i]);
    }
  });
  return result;
}

std::vector<at::Tensor> fused_weight_gradients(const at::Tensor& y_gradient, const at::Tensor& x,
                                               const std::vector<at::Tensor>& weights,
                                               bool with_biases, bool transposed) {
  std::vector<at::Tensor> of_weights, of_biases;
  visit_columns(y_gradient, weights, [&](size_t, const at::Tensor& columns) {
    of_weights.push_back(weight_gradient(columns, x, transposed));
    if (with_biases) of_biases.push_back(sum_rows(columns));
  });
  of_weights.insert(of_weights.end(), of_biases.begin(), of_biases.end());
  return of_weights;
}

at::Tensor fused_linear(const at::Tensor& x, const FusedWeights& given) {
  COLOSSAL_CHECK(!given.weights.empty() &&
                     (given.biases.empty() || given.biases.size() == given.weights.size()),
                 "{} weights, {} biases", given.weights.size(), given.biases.size());
  return FusedLinear::apply(x, at::TensorList(given.weights), at::TensorList(given.biases));
}

}  // namespace colossal::ops
