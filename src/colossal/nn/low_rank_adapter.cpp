#include "colossal/nn/low_rank_adapter.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "colossal/ops/product/fused_linear.h"
#include "colossal/ops/product/low_rank.h"

namespace colossal::nn {
namespace {

// Returns the column of z at which x A^T begins, for each A.
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

bool LowRankAdapter::has_magnitudes() const {
  return std::ranges::any_of(
      products_, [](const Product& product) { return static_cast<bool>(product.magnitudes); });
}

at::Tensor LowRankAdapter::apply(const at::Tensor& x, const std::vector<ParameterHandle>& biases,
                                 const StepContext& context, LayerScope& scope,
                                 const Multiply& multiply) const {
  const at::Tensor y = context.adapted && has_magnitudes()
                           ? scaled(x, biases, context, scope, multiply)
                           : add_own(multiply(x, biases), x, context, scope);
  if (!context.services.adapted_rows.empty()) add_request_adapters(y, x, biases, context, scope);
  return y;
}

at::Tensor LowRankAdapter::add_own(const at::Tensor& y, const at::Tensor& x,
                                   const StepContext& context, LayerScope& scope) const {
  if (downs_.empty() || !context.adapted) return y;
  const at::Tensor dropped = dropout_ ? dropout_->forward(x, context) : x;
  return add_dropped(y, dropped, context, scope);
}

at::Tensor LowRankAdapter::add_dropped(const at::Tensor& y, const at::Tensor& x,
                                       const StepContext& context, LayerScope& scope) const {
  const std::vector<at::Tensor> downs = used(downs_, scope);
  const at::Tensor z = down_projected(x, downs, context);
  const std::vector<int64_t> z_offset = first_columns(downs);
  std::vector<ops::LowRankUp> ups;
  for (const Product& product : products_) {
    ups.push_back({product.up ? product.up.use(scope) : at::Tensor(), product.out_features,
                   z_offset[product.down], product.scale});
  }
  return ops::add_low_rank(y, z, ups);
}

at::Tensor LowRankAdapter::scaled(const at::Tensor& x, const std::vector<ParameterHandle>& biases,
                                  const StepContext& context, LayerScope& scope,
                                  const Multiply& multiply) const {
  const at::Tensor dropped = dropout_ ? dropout_->forward(x, context) : x;
  const bool drops = !dropped.is_same(x);
  const at::Tensor base = multiply(dropped, {});
  const at::Tensor changed = add_dropped(drops ? base.clone() : base, dropped, context, scope);
  at::Tensor y = changed * factors(context, scope).to(changed.scalar_type());
  if (drops) y = y + (multiply(x, {}) - base);
  return biases.empty() ? y : y + at::cat(used(biases, scope));
}

at::Tensor LowRankAdapter::factors(const StepContext& context, LayerScope& scope) const {
  // Weights change only after training passes, so the norms are kept from one other pass to the
  // next.
  if (context.training) cached_norms_.clear();
  std::vector<at::Tensor> norms = cached_norms_;
  std::vector<at::Tensor> factors;
  if (norms.empty()) {
    for (const Product& product : products_) {
      if (!product.magnitudes) continue;
      norms.push_back(output_norms(
          {product.weight, downs_[product.down], product.up, product.scale}, sum_, scope));
    }
    if (!context.training) cached_norms_ = norms;
  }
  auto next = norms.begin();
  for (const Product& product : products_) {
    factors.push_back(product.magnitudes
                          ? product.magnitudes.use(scope).to(next->scalar_type()) / *next
                          : at::ones({product.out_features}, norms.front().options()));
    if (product.magnitudes) ++next;
  }
  return at::cat(factors);
}

int64_t LowRankAdapter::RequestAdapter::rank() const {
  int64_t rank = 0;
  for (const at::Tensor& down : downs) rank += down.size(0);
  return rank;
}

auto LowRankAdapter::request_adapter_in(const AdapterWeights& adapter) const -> RequestAdapter {
  RequestAdapter requested;
  for (const Product& product : products_) {
    const auto found = adapter.products.find(product.name);
    if (found == adapter.products.end()) {
      requested.ups.emplace_back();
      continue;
    }
    const at::Tensor& down = found->second.down;
    const auto same = std::ranges::find_if(
        requested.downs, [&](const at::Tensor& other) { return other.is_same(down); });
    requested.ups.push_back({&found->second, static_cast<size_t>(same - requested.downs.begin())});
    if (same == requested.downs.end()) requested.downs.push_back(down);
  }
  return requested;
}

void LowRankAdapter::add_request_adapters(const at::Tensor& y, const at::Tensor& x,
                                          const std::vector<ParameterHandle>& biases,
                                          const StepContext& context, LayerScope& scope) const {
  std::map<const AdapterWeights*, RequestAdapter> requested;
  int64_t columns = 0;
  for (const AdaptedRows& rows : context.services.adapted_rows) {
    const auto [found, is_new] = requested.try_emplace(rows.adapter);
    if (is_new) found->second = request_adapter_in(*rows.adapter);
    columns = std::max(columns, found->second.rank());
  }
  if (columns == 0) return;
  const auto rows_of = [&](const Tokens& tokens) {
    return tokens ? rows_within(context.services.adapted_rows, tokens(context))
                  : context.services.adapted_rows;
  };
  const at::Tensor x_rows = x.flatten(0, -2);
  at::Tensor z = at::zeros({x_rows.size(0), columns}, x.options());
  for (const auto& [adapter, begin, count] : rows_of(way_.of_x)) {
    const RequestAdapter& of_rows = requested.at(adapter);
    if (of_rows.downs.empty()) continue;
    z.narrow(0, begin, count)
        .narrow(1, 0, of_rows.rank())
        .copy_(ops::fused_linear(x_rows.narrow(0, begin, count), {of_rows.downs, {}}));
  }
  if (way_.move) {
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = columns;
    z = way_.move(z.view(sizes), context).flatten(0, -2);
  }
  const at::Tensor bias = biases.empty() ? at::Tensor() : at::cat(used(biases, scope));
  for (const auto& [adapter, begin, count] : rows_of(way_.of_y)) {
    const RequestAdapter& of_rows = requested.at(adapter);
    if (of_rows.downs.empty()) continue;
    add_request_adapters(y.flatten(0, -2).narrow(0, begin, count),
                         z.narrow(0, begin, count).narrow(1, 0, of_rows.rank()).contiguous(), bias,
                         of_rows);
  }
}

void LowRankAdapter::add_request_adapters(const at::Tensor& y, const at::Tensor& z,
                                          const at::Tensor& bias,
                                          const RequestAdapter& requested) const {
  const std::vector<int64_t> z_offset = first_columns(requested.downs);
  std::vector<ops::LowRankUp> added;
  for (size_t i = 0; i < requested.ups.size(); ++i) {
    const auto& [product, down] = requested.ups[i];
    added.push_back({product ? product->up : at::Tensor(), products_[i].out_features,
                     z_offset[down], product ? product->scale : 1});
  }
  ops::add_low_rank(y, z, added);
  int64_t begin = 0;
  for (size_t i = 0; i < requested.ups.size(); ++i) {
    const int64_t count = products_[i].out_features;
    const AdapterWeights::Product* const product = requested.ups[i].product;
    if (product && product->factors.defined()) {
      at::Tensor columns = y.narrow(1, begin, count);
      // The factors do not apply to the bias.
      if (bias.defined()) columns.sub_(bias.narrow(0, begin, count));
      columns.mul_(product->factors);
      if (bias.defined()) columns.add_(bias.narrow(0, begin, count));
    }
    begin += count;
  }
}

at::Tensor LowRankAdapter::down_projected(const at::Tensor& x, const std::vector<at::Tensor>& downs,
                                          const StepContext& context) const {
  const at::Tensor z = ops::fused_linear(x, {downs, {}});
  return way_.move ? way_.move(z, context) : z;
}

}  // namespace colossal::nn
