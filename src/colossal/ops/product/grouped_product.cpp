#include "colossal/ops/product/grouped_product.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>

#include "colossal/base/error.h"
#include "colossal/ops/deferred_gradients.h"
#include "colossal/ops/dry_repeats.h"
#include "colossal/ops/product/bf16_block.h"
#include "colossal/ops/product/bf16_product.h"
#include "colossal/ops/product/few_rows.h"
#include "colossal/ops/product/product.h"
#include "colossal/ops/product/tile_product.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

int64_t total_out(at::TensorList weights) {
  int64_t out = 0;
  for (const at::Tensor& weight : weights) out += weight.size(1);
  return out;
}

// Calls visit(group, first row, number of rows) for each group that has rows. In a dry run, the
// first of consecutive groups with equally many rows stands for all of them.
template <typename Visit>
void visit_groups(const at::Tensor& rows, const std::vector<int64_t>& counts, const Visit& visit) {
  int64_t begin = 0;
  for (size_t group = 0, next = 0; group < counts.size(); group = next) {
    const int64_t count = counts[group];
    next = group + 1;
    while (rows.is_meta() && next < counts.size() && counts[next] == count) ++next;
    const auto alike = static_cast<int64_t>(next - group);
    const DryRepeats all(alike);
    if (count > 0) visit(static_cast<int64_t>(group), begin, count);
    begin += alike * count;
  }
}

bool fits_blocks(const at::Tensor& a) {
  return (a.is_cpu() || a.is_meta()) && a.scalar_type() == at::kBFloat16 && bf16_block_product();
}

// Computes to <- a b or, with `add`, to <- to + a b. Avoids LibTorch's bf16 product on the CPU: it
// would compile a kernel for each number of rows, which changes from call to call, and keep up to a
// thousand of them.
void group_product(at::Tensor to, const at::Tensor& a, const at::Tensor& b, bool add = false) {
  if (supports_tile_product(a, b, to)) {
    tile_product(a, b, to, add);
  } else if (fits_blocks(a)) {
    const at::Tensor part = add ? at::empty(to.sizes(), to.options()) : to;
    rounded_product(a, b, part);
    if (add) to.add_(part);
  } else if (add) {
    add_matrix_product(to, a, b);
  } else {
    product_out(to, a, b);
  }
}

at::Tensor products(const at::Tensor& rows, const std::vector<int64_t>& counts,
                    at::TensorList weights) {
  at::Tensor result = at::empty({rows.size(0), total_out(weights)}, rows.options());
  visit_groups(rows, counts, [&](int64_t group, int64_t begin, int64_t count) {
    const at::Tensor x = rows.narrow(0, begin, count), y = result.narrow(0, begin, count);
    std::vector<at::Tensor> of_group;
    for (const at::Tensor& weight : weights) of_group.push_back(weight.select(0, group));
    if (are_few_rows(x, of_group)) {
      few_rows_product(y, x, of_group, {});
      return;
    }
    int64_t column = 0;
    for (const at::Tensor& weight : weights) {
      group_product(y.narrow(1, column, weight.size(1)), x, weight.select(0, group).t());
      column += weight.size(1);
    }
  });
  return result;
}

at::Tensor gradient_of_rows(const at::Tensor& y_gradient, const std::vector<int64_t>& counts,
                            at::TensorList weights) {
  at::Tensor result = at::empty({y_gradient.size(0), weights[0].size(2)}, y_gradient.options());
  visit_groups(y_gradient, counts, [&](int64_t group, int64_t begin, int64_t count) {
    at::Tensor of_group = result.narrow(0, begin, count);
    const at::Tensor y = y_gradient.narrow(0, begin, count);
    int64_t column = 0;
    for (const at::Tensor& weight : weights) {
      const at::Tensor columns = y.narrow(1, column, weight.size(1));
      group_product(of_group, columns, weight.select(0, group), /*add=*/column > 0);
      column += weight.size(1);
    }
  });
  return result;
}

// Returns the gradient of a weight [groups, out, in] whose outputs begin at column `column`.
at::Tensor gradient_of_weight(const at::Tensor& y_gradient, const at::Tensor& rows,
                              const std::vector<int64_t>& counts, int64_t column, int64_t out) {
  const int64_t groups = static_cast<int64_t>(counts.size());
  at::Tensor result = at::empty({groups, out, rows.size(1)}, rows.options());
  for (int64_t group = 0; group < groups; ++group) {
    if (counts[group] == 0) result.select(0, group).zero_();
  }
  visit_groups(rows, counts, [&](int64_t group, int64_t begin, int64_t count) {
    const at::Tensor y = y_gradient.narrow(0, begin, count).narrow(1, column, out);
    group_product(result.select(0, group), y.t(), rows.narrow(0, begin, count));
  });
  return result;
}

struct GroupedProduct : torch::autograd::Function<GroupedProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows,
                            at::TensorList weights, const std::vector<int64_t>& counts) {
    const bool trained = std::ranges::any_of(
        weights, [](const at::Tensor& weight) { return weight.requires_grad(); });
    variable_list saved{trained ? rows : at::Tensor()};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(saved);
    context->saved_data["counts"] = counts;
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return products(rows, counts, weights);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const std::vector<at::Tensor> weights(saved.begin() + 1, saved.end());
    const std::vector<int64_t> counts = context->saved_data["counts"].toIntVector();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor y_gradient = gradients[0].contiguous();
    variable_list result(1 + weights.size() + 1);  // the last one, of counts, is undefined
    if (context->needs_input_grad(0)) result[0] = gradient_of_rows(y_gradient, counts, weights);
    std::vector<int64_t> outs;
    std::vector<bool> wanted;
    for (size_t i = 0; i < weights.size(); ++i) {
      outs.push_back(weights[i].size(1));
      wanted.push_back(context->needs_input_grad(1 + i));
    }
    if (std::ranges::find(wanted, true) == wanted.end()) return result;
    const auto of_weights = [=, rows = saved[0]] {
      variable_list made(outs.size());
      int64_t column = 0;
      for (size_t i = 0; i < outs.size(); ++i) {
        if (wanted[i]) made[i] = gradient_of_weight(y_gradient, rows, counts, column, outs[i]);
        column += outs[i];
      }
      return made;
    };
    if (DeferredGradients* const later = DeferredGradients::of_this_thread()) {
      later->defer_gradients(1, of_weights);
    } else {
      std::ranges::move(of_weights(), result.begin() + 1);
    }
    return result;
  }
};

}  // namespace

at::Tensor grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                           const std::vector<at::Tensor>& weights) {
  COLOSSAL_CHECK(rows.dim() == 2 && !weights.empty(), "rows of {} dims, {} weights", rows.dim(),
                 weights.size());
  const int64_t groups = static_cast<int64_t>(counts.size());
  for (const at::Tensor& weight : weights) {
    COLOSSAL_CHECK(weight.dim() == 3 && weight.size(0) == groups && weight.size(2) == rows.size(1),
                   "{} groups of rows of {} features, and a weight [{}]", groups, rows.size(1),
                   fmt::join(weight.sizes(), ", "));
  }
  const int64_t counted = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  COLOSSAL_CHECK(counted == rows.size(0), "{} rows, {} in groups", rows.size(0), counted);
  if (!at::GradMode::is_enabled()) return products(rows, counts, weights);
  return GroupedProduct::apply(rows, at::TensorList(weights), counts);
}

}  // namespace colossal::ops
