#include "colossal/nn/low_rank_adapter.h"

#include "colossal/ops/fused_linear.h"
#include "colossal/ops/low_rank.h"

namespace colossal::nn {

at::Tensor LowRankAdapter::add(const at::Tensor& y, const at::Tensor& x, const StepContext& context,
                               LayerScope& scope) const {
  if (downs_.empty() || !context.adapted) return y;
  const at::Tensor dropped = dropout_ ? dropout_->forward(x, context) : x;
  const std::vector<at::Tensor> downs = used(downs_, scope);
  at::Tensor z = ops::fused_linear(dropped, {downs, {}});
  if (move_) z = move_(z, context);
  std::vector<int64_t> first_of_z;
  int64_t columns = 0;
  for (const at::Tensor& down : downs) {
    first_of_z.push_back(columns);
    columns += down.size(0);
  }
  std::vector<ops::LowRankUp> ups;
  for (const Product& product : products_) {
    ups.push_back({product.up ? product.up.use(scope) : at::Tensor(), product.out_features,
                   first_of_z[product.down]});
  }
  return ops::add_low_rank(y, z, ups, scale_);
}

}  // namespace colossal::nn
