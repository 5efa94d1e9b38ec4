#include "colossal/ops/expert_order.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>

#include "colossal/base/error.h"
#include "colossal/ops/download.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Appends a row of zeros if choices were dropped. The place of a dropped choice is this row.
at::Tensor with_row_of_dropped(const at::Tensor& rows, bool has_dropped) {
  return has_dropped ? at::constant_pad_nd(rows, {0, 0, 0, 1}) : rows;
}

// Selects the token of each choice, in the order of experts. The gradient sums the choices of each
// token in a fixed order, not in the order in which threads add.
struct SelectTokens : torch::autograd::Function<SelectTokens> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& order,
                            const at::Tensor& place, int64_t chosen, bool has_dropped) {
    context->save_for_backward({place});
    context->saved_data["chosen"] = chosen;
    context->saved_data["has_dropped"] = has_dropped;
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return x.index_select(0, at::div(order, chosen, "floor"));
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor place = context->get_saved_variables()[0];
    const int64_t chosen = context->saved_data["chosen"].toInt();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const bool has_dropped = context->saved_data["has_dropped"].toBool();
    const at::Tensor by_choice =
        with_row_of_dropped(gradients[0], has_dropped).index_select(0, place);
    return {by_choice.view({-1, chosen, by_choice.size(1)}).sum(1), {}, {}, {}, {}};
  }
};

struct PermuteRows : torch::autograd::Function<PermuteRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows,
                            const at::Tensor& order, const at::Tensor& inverse) {
    context->save_for_backward({inverse});
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return rows.index_select(0, order);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor inverse = context->get_saved_variables()[0];
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return {gradients[0].index_select(0, inverse), {}, {}};
  }
};

// Divides `rows` in proportion to `ratio`. Rounds the sum of the first i counts down, for each i,
// so all counts add up to `rows`.
std::vector<int64_t> divided_counts(int64_t rows, const std::vector<int64_t>& ratio) {
  const double total = std::accumulate(ratio.begin(), ratio.end(), 0.0);
  std::vector<int64_t> counts;
  double sum = 0;
  int64_t begin = 0;
  for (size_t expert = 0; expert < ratio.size(); ++expert) {
    sum += static_cast<double>(ratio[expert]);
    const auto share = static_cast<int64_t>(sum / total * static_cast<double>(rows));
    const int64_t end = expert + 1 == ratio.size() ? rows : share;
    counts.push_back(end - begin);
    begin = end;
  }
  return counts;
}

std::vector<int64_t> even_counts(int64_t rows, int64_t num_experts) {
  std::vector<int64_t> counts(num_experts, rows / num_experts);
  for (int64_t expert = 0; expert < rows % num_experts; ++expert) ++counts[expert];
  return counts;
}

bool has_rows(const std::vector<int64_t>& counts) {
  return std::ranges::any_of(counts, [](int64_t count) { return count > 0; });
}

}  // namespace

ExpertOrder order_by_expert(const at::Tensor& experts, int64_t num_experts,
                            const std::vector<int64_t>& expected,
                            const std::function<void()>& meanwhile) {
  COLOSSAL_CHECK(experts.dim() == 2, "experts of {} dims", experts.dim());
  const at::Tensor choices = experts.flatten();
  const int64_t rows = choices.size(0);
  ExpertOrder result{.order = at::argsort(choices, /*stable=*/true, 0, /*descending=*/false),
                     .place = at::empty_like(choices),
                     .counts = {},
                     .chosen = experts.size(1)};
  result.place.scatter_(0, result.order, at::arange(rows, choices.options()));
  if (choices.is_meta()) {
    result.counts =
        has_rows(expected) ? divided_counts(rows, expected) : even_counts(rows, num_experts);
    return result;
  }
  // at::bincount() would wait for the device to learn the largest index.
  const at::Tensor on_device = at::zeros({num_experts + 2}, choices.options());
  on_device.scatter_add_(0, choices.clamp_max(num_experts + 1), at::ones_like(choices));
  Download counts(on_device);
  if (experts.is_cuda() && meanwhile) meanwhile();
  const auto* of_experts = counts.wait().const_data_ptr<int64_t>();
  COLOSSAL_CHECK(of_experts[num_experts + 1] == 0, "{} choices of experts beyond the {} there are",
                 of_experts[num_experts + 1], num_experts);
  result.counts.assign(of_experts, of_experts + num_experts);
  const int64_t kept = rows - of_experts[num_experts];
  result.has_dropped = kept < rows;
  if (result.has_dropped) {
    result.order = result.order.narrow(0, 0, kept);
    result.place.clamp_max_(kept);
  }
  return result;
}

at::Tensor permuted_rows(const at::Tensor& rows, const at::Tensor& order,
                         const at::Tensor& inverse) {
  return PermuteRows::apply(rows, order, inverse);
}

at::Tensor rows_by_expert(const at::Tensor& x, const ExpertOrder& order) {
  return SelectTokens::apply(x, order.order, order.place, order.chosen, order.has_dropped);
}

at::Tensor sum_over_experts(const at::Tensor& rows, const at::Tensor& weights,
                            const ExpertOrder& order) {
  // index_select() selects each row once, except the appended zeros. So no two threads add to the
  // gradient of the same row.
  const at::Tensor by_choice = order.has_dropped
                                   ? with_row_of_dropped(rows, true).index_select(0, order.place)
                                   : permuted_rows(rows, order.place, order.order);
  const at::Tensor by_token = by_choice.view({-1, order.chosen, rows.size(1)});
  return (by_token * weights.to(rows.scalar_type()).unsqueeze(-1)).sum(1);
}

}  // namespace colossal::ops
