#include "colossal/nn/low_rank_adapter.h"

#include <algorithm>

#include "colossal/ops/fused_linear.h"
#include "colossal/ops/low_rank.h"

namespace colossal::nn {
namespace {

// Where the columns of each A begin in z.
std::vector<int64_t> first_columns(const std::vector<at::Tensor>& downs) {
  std::vector<int64_t> first;
  int64_t columns = 0;
  for (const at::Tensor& down : downs) {
    first.push_back(columns);
    columns += down.size(0);
  }
  return first;
}

}  // namespace

at::Tensor LowRankAdapter::add(const at::Tensor& y, const at::Tensor& x, const StepContext& context,
                               LayerScope& scope) const {
  const at::Tensor sum = add_own(y, x, context, scope);
  for (const AdaptedRows& rows : context.adapted_rows) {
    add_brought(sum.flatten(0, -2).narrow(0, rows.begin, rows.count),
                x.flatten(0, -2).narrow(0, rows.begin, rows.count), *rows.adapter, context);
  }
  return sum;
}

at::Tensor LowRankAdapter::add_own(const at::Tensor& y, const at::Tensor& x,
                                   const StepContext& context, LayerScope& scope) const {
  if (downs_.empty() || !context.adapted) return y;
  const std::vector<at::Tensor> downs = used(downs_, scope);
  const at::Tensor z = narrowed(dropout_ ? dropout_->forward(x, context) : x, downs, context);
  const std::vector<int64_t> first_of_z = first_columns(downs);
  std::vector<ops::LowRankUp> ups;
  for (const Product& product : products_) {
    ups.push_back({product.up ? product.up.use(scope) : at::Tensor(), product.out_features,
                   first_of_z[product.down]});
  }
  return ops::add_low_rank(y, z, ups, scale_);
}

void LowRankAdapter::add_brought(const at::Tensor& y, const at::Tensor& x,
                                 const AdapterWeights& adapter, const StepContext& context) const {
  std::vector<at::Tensor> downs;
  std::vector<std::pair<at::Tensor, size_t>> ups;  // of each product, and which A it has
  for (const Product& product : products_) {
    const auto found = adapter.products.find(product.name);
    if (found == adapter.products.end()) {
      ups.emplace_back(at::Tensor(), 0);
      continue;
    }
    const auto& [down, up] = found->second;
    const auto same =
        std::ranges::find_if(downs, [&](const at::Tensor& other) { return other.is_same(down); });
    ups.emplace_back(up, same - downs.begin());
    if (same == downs.end()) downs.push_back(down);
  }
  if (downs.empty()) return;
  const at::Tensor z = narrowed(x, downs, context);
  const std::vector<int64_t> first_of_z = first_columns(downs);
  std::vector<ops::LowRankUp> added;
  for (size_t i = 0; i < ups.size(); ++i) {
    added.push_back({ups[i].first, products_[i].out_features, first_of_z[ups[i].second]});
  }
  ops::add_low_rank(y, z, added, adapter.scale);
}

// x A^T of all A's side by side, where y lies.
at::Tensor LowRankAdapter::narrowed(const at::Tensor& x, const std::vector<at::Tensor>& downs,
                                    const StepContext& context) const {
  const at::Tensor z = ops::fused_linear(x, {downs, {}});
  return move_ ? move_(z, context) : z;
}

}  // namespace colossal::nn
