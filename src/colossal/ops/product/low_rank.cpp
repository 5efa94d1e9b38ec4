#include "colossal/ops/product/low_rank.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/ops/deferred_gradients.h"
#include "colossal/ops/product/few_rows.h"
#include "colossal/ops/product/libtorch_product.h"
#include "colossal/ops/product/product.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The columns of y and of z that belong to one layer, and the scale of its adapter.
struct Columns {
  int64_t y = 0, out_features = 0;
  int64_t z = 0, rank = 0;
  double scale = 1;

  at::Tensor of_y(const at::Tensor& rows) const { return rows.narrow(1, y, out_features); }
  at::Tensor of_z(const at::Tensor& rows) const { return rows.narrow(1, z, rank); }
};

// Adds scale * z weight^T to y.
void add_product(at::Tensor y, const at::Tensor& z, const at::Tensor& weight, double scale) {
  if (!are_few_rows(z, {weight})) {
    add_libtorch_product(y, z, weight.t(), scale);
    return;
  }
  const at::Tensor added = at::empty(y.sizes(), z.options());
  few_rows_product(added, z, {weight}, {});
  // Rounds each element twice. y.add_(added, scale) would round the elements in vectors once and
  // the others twice, so bits would depend on an element's place.
  y.add_(added.mul_(scale));
}

struct AddLowRank : torch::autograd::Function<AddLowRank> {
  // places: one for each weight. at::TensorList is the only type of list whose elements autograd
  // records.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& y, const at::Tensor& z,
                            at::TensorList weights, const std::vector<Columns>& places) {
    variable_list saved{z};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(saved);
    context->saved_data["places"] = flat(places);
    std::vector<double> scales;
    for (const Columns& place : places) scales.push_back(place.scale);
    context->saved_data["scales"] = scales;
    context->mark_dirty({y});
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor y_rows = y.flatten(0, -2), z_rows = z.flatten(0, -2);
    for (size_t i = 0; i < places.size(); ++i) {
      add_product(places[i].of_y(y_rows), places[i].of_z(z_rows), weights[i], places[i].scale);
    }
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const std::vector<Columns> places = unflattened(context->saved_data["places"].toIntVector(),
                                                    context->saved_data["scales"].toDoubleVector());
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor y_gradient = gradients[0].flatten(0, -2);
    const at::Tensor z = saved[0].flatten(0, -2);
    const at::Tensor z_gradient = at::zeros(z.sizes(), z.options());
    for (size_t i = 0; i < places.size(); ++i) {
      add_libtorch_product(places[i].of_z(z_gradient), places[i].of_y(y_gradient), saved[1 + i],
                           places[i].scale);
    }
    const auto of_weights = [=] {
      variable_list made;
      for (const Columns& place : places) {
        made.push_back(product(place.of_y(y_gradient).t(), place.of_z(z)).mul_(place.scale));
      }
      return made;
    };
    variable_list result(2 + places.size() + 1);  // the last one, of `places`, is undefined
    result[0] = gradients[0];
    result[1] = z_gradient.view(saved[0].sizes());
    if (DeferredGradients* const later = DeferredGradients::of_this_thread()) {
      later->defer_gradients(2, of_weights);
    } else {
      std::ranges::move(of_weights(), result.begin() + 2);
    }
    return result;
  }

 private:
  static std::vector<int64_t> flat(const std::vector<Columns>& places) {
    std::vector<int64_t> numbers;
    for (const Columns& place : places) {
      numbers.insert(numbers.end(), {place.y, place.out_features, place.z, place.rank});
    }
    return numbers;
  }
  static std::vector<Columns> unflattened(const std::vector<int64_t>& numbers,
                                          const std::vector<double>& scales) {
    std::vector<Columns> places;
    for (size_t i = 0; i < numbers.size(); i += 4) {
      places.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3], scales[i / 4]});
    }
    return places;
  }
};

}  // namespace

at::Tensor add_low_rank(const at::Tensor& y, const at::Tensor& z,
                        const std::vector<LowRankUp>& ups) {
  std::vector<at::Tensor> weights;
  std::vector<Columns> places;
  int64_t begin = 0;
  for (const LowRankUp& up : ups) {
    if (up.weight.defined()) {
      weights.push_back(up.weight);
      places.push_back({begin, up.out_features, up.z_offset, up.weight.size(1), up.scale});
    }
    begin += up.out_features;
  }
  COLOSSAL_CHECK(begin == y.size(-1), "y has {} columns, the products {}", y.size(-1), begin);
  return AddLowRank::apply(y, z, at::TensorList(weights), places);
}

}  // namespace colossal::ops
