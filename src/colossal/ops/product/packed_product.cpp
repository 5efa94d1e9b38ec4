#include "colossal/ops/product/packed_product.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/base/range.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/optimizer_kernels.h"
#include "colossal/ops/product/few_rows.h"
#include "colossal/ops/product/fused_linear.h"
#include "colossal/ops/product/product.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Maximum number of elements per panel. Most matrices of models with a few billion parameters are
// one panel.
constexpr int64_t kPanelNumbers = int64_t{1} << 23;

// Unpacks the weights panel by panel, and calls visit(panel, columns, i, begin) for each panel.
// panel: outputs of weight i from `begin` on, [outputs of the panel, in]. columns: the columns of y
// for these outputs.
template <typename Visit>
void for_panels(const at::Tensor& y, const PackedWeights& given, at::ScalarType type,
                const Visit& visit) {
  int64_t first_column = 0;
  for (size_t i = 0; i < given.bytes.size(); ++i) {
    const PackedLayout& layout = *given.layouts[i];
    const int64_t most =
        std::max<int64_t>(1, kPanelNumbers / std::max<int64_t>(1, layout.columns()));
    for (int64_t begin = 0; begin < layout.rows(); begin += most) {
      const int64_t end = std::min(begin + most, layout.rows());
      visit(unpacked_rows(given.bytes[i], layout, begin, end, type),
            y.narrow(1, first_column + begin, end - begin), i, begin);
    }
    first_column += layout.rows();
  }
}

// Returns x weight^T + bias, [rows, sum of out]. x: [rows, in].
at::Tensor packed_product(const at::Tensor& x, const PackedWeights& given) {
  const at::Tensor y = at::empty({x.size(0), given.out_features()}, x.options());
  for_panels(y, given, x.scalar_type(),
             [&](const at::Tensor& panel, const at::Tensor& columns, size_t i, int64_t begin) {
               at::Tensor bias;
               if (!given.biases.empty()) bias = given.biases[i].narrow(0, begin, panel.size(0));
               if (are_few_rows(x, {panel})) {
                 const std::vector<at::Tensor> biases(bias.defined() ? 1 : 0, bias);
                 at::Tensor(columns).copy_(fused_product(x, {{panel}, biases}));
               } else {
                 product_out(columns, x, panel.t(), bias);
               }
             });
  return y;
}

// Returns the gradient of x, [rows, in]. y_gradient: [rows, sum of out]. Sums over panels in the
// compute type. In bf16, each panel's product is rounded before it is added: a product that returns
// bf16 is the fastest.
at::Tensor packed_input_gradient(const at::Tensor& y_gradient, const PackedWeights& given) {
  const at::ScalarType type = y_gradient.scalar_type();
  at::Tensor sum;
  for_panels(y_gradient, given, type,
             [&](const at::Tensor& panel, const at::Tensor& columns, size_t, int64_t) {
               if (sum.defined() && sum.scalar_type() == type) {
                 sum.addmm_(columns, panel);
                 return;
               }
               const at::Tensor part = product(columns, panel);
               if (sum.defined()) {
                 accumulate(sum.view(-1), part.view(-1));
               } else {
                 const bool is_all = panel.size(0) == y_gradient.size(1);
                 sum = is_all ? part : part.to(compute_type(type));
               }
             });
  if (sum.defined()) return sum.to(type);
  return at::zeros({y_gradient.size(0), given.layouts.front()->columns()}, y_gradient.options());
}

at::Tensor shaped_packed_product(const at::Tensor& x, const PackedWeights& given) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = given.out_features();
  return packed_product(x.flatten(0, -2).contiguous(), given).view(sizes);
}

struct PackedLinear : torch::autograd::Function<PackedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const PackedWeights& given) {
    // The backward pass fetches bytes that are transient again.
    context->save_for_backward(given.bytes);
    std::vector<int64_t> layouts;
    for (const auto& layout : given.layouts) {
      layouts.push_back(reinterpret_cast<int64_t>(layout.get()));
    }
    context->saved_data["layouts"] = layouts;
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return shaped_packed_product(x, given);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    PackedWeights given{.bytes = context->get_saved_variables(), .layouts = {}, .biases = {}};
    for (const int64_t layout : context->saved_data["layouts"].toIntVector()) {
      given.layouts.push_back({std::shared_ptr<void>(), reinterpret_cast<PackedLayout*>(layout)});
    }
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    std::vector<int64_t> sizes = gradients[0].sizes().vec();
    sizes.back() = given.layouts.front()->columns();
    return {packed_input_gradient(gradients[0].flatten(0, -2), given).view(sizes), at::Tensor()};
  }
};

// Calls visit(rows, columns, panel) for each group that has rows and each stack, with the group's
// rows of x, the stack's columns of y, and the group's unpacked weight [out, in].
template <typename Visit>
void for_groups(const std::vector<int64_t>& counts, const PackedWeights& stacks,
                at::ScalarType type, const Visit& visit) {
  const auto groups = std::ssize(counts);
  int64_t first_row = 0;
  for (int64_t group = 0; group < groups; ++group) {
    const Range rows{first_row, first_row + counts[static_cast<size_t>(group)]};
    first_row = rows.end;
    int64_t first_column = 0;
    for (size_t i = 0; i < stacks.bytes.size() && !rows.empty(); ++i) {
      const PackedLayout& layout = *stacks.layouts[i];
      const int64_t out = layout.rows() / groups;
      visit(rows, Range{first_column, first_column + out},
            unpacked_rows(stacks.bytes[i], layout, group * out, (group + 1) * out, type));
      first_column += out;
    }
  }
}

int64_t out_features_of_group(const std::vector<int64_t>& counts, const PackedWeights& stacks) {
  return counts.empty() ? 0 : stacks.out_features() / std::ssize(counts);
}

struct PackedGroupedProduct : torch::autograd::Function<PackedGroupedProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows,
                            const std::vector<int64_t>& counts, const PackedWeights& stacks) {
    context->save_for_backward(stacks.bytes);
    std::vector<int64_t> layouts;
    for (const auto& layout : stacks.layouts) {
      layouts.push_back(reinterpret_cast<int64_t>(layout.get()));
    }
    context->saved_data["layouts"] = layouts;
    context->saved_data["counts"] = counts;
    context->saved_data["in"] = rows.size(1);
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor y =
        at::empty({rows.size(0), out_features_of_group(counts, stacks)}, rows.options());
    for_groups(counts, stacks, rows.scalar_type(),
               [&](Range of_group, Range columns, const at::Tensor& panel) {
                 const at::Tensor x = rows.narrow(0, of_group.begin, of_group.size());
                 y.narrow(0, of_group.begin, of_group.size())
                     .narrow(1, columns.begin, columns.size())
                     .copy_(fused_product(x, {{panel}, {}}));
               });
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    PackedWeights stacks{.bytes = context->get_saved_variables(), .layouts = {}, .biases = {}};
    for (const int64_t layout : context->saved_data["layouts"].toIntVector()) {
      stacks.layouts.push_back({std::shared_ptr<void>(), reinterpret_cast<PackedLayout*>(layout)});
    }
    const std::vector<int64_t> counts = context->saved_data["counts"].toIntVector();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor y_gradient = gradients[0].contiguous();
    const at::ScalarType type = y_gradient.scalar_type();
    const at::Tensor sum = at::zeros({y_gradient.size(0), context->saved_data["in"].toInt()},
                                     y_gradient.options().dtype(compute_type(type)));
    for_groups(counts, stacks, type, [&](Range rows, Range columns, const at::Tensor& panel) {
      const at::Tensor of_group = y_gradient.narrow(0, rows.begin, rows.size())
                                      .narrow(1, columns.begin, columns.size())
                                      .contiguous();
      sum.narrow(0, rows.begin, rows.size()).add_(product(of_group, panel));
    });
    return {sum.to(type), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

int64_t PackedWeights::out_features() const {
  int64_t features = 0;
  for (const auto& layout : layouts) features += layout->rows();
  return features;
}

at::Tensor packed_linear(const at::Tensor& x, const PackedWeights& given) {
  COLOSSAL_CHECK(!given.bytes.empty() && given.bytes.size() == given.layouts.size() &&
                     (given.biases.empty() || given.biases.size() == given.bytes.size()),
                 "{} weights, {} layouts, {} biases", given.bytes.size(), given.layouts.size(),
                 given.biases.size());
  if (!at::GradMode::is_enabled()) return shaped_packed_product(x, given);
  return PackedLinear::apply(x, given);
}

at::Tensor packed_grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                  const PackedWeights& stacks) {
  COLOSSAL_CHECK(!stacks.bytes.empty() && stacks.bytes.size() == stacks.layouts.size(),
                 "{} stacks, {} layouts", stacks.bytes.size(), stacks.layouts.size());
  return PackedGroupedProduct::apply(rows, counts, stacks);
}

}  // namespace colossal::ops
