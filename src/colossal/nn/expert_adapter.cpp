#include "colossal/nn/expert_adapter.h"

#include <ATen/TensorOperators.h>

#include "colossal/ops/product/grouped_product.h"

namespace colossal::nn {

at::Tensor ExpertAdapter::add(const at::Tensor& y, const at::Tensor& rows,
                              const std::vector<int64_t>& counts, const StepContext& context,
                              LayerScope& scope) const {
  if (!down_ || !context.adapted) return y;
  const auto experts = std::ssize(counts);
  const at::Tensor down = down_.use(scope).unflatten(0, {experts, rank_});
  std::vector<at::Tensor> ups;
  for (const ParameterHandle& up : ups_) {
    ups.push_back(up.use(scope).unflatten(1, {rank_, experts}).permute({2, 0, 1}));
  }
  const at::Tensor z = ops::grouped_product(rows, counts, {down});
  return y + ops::grouped_product(z, counts, ups) * scale_;
}

}  // namespace colossal::nn
