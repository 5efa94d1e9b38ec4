#include "colossal/nn/latent_projection.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "colossal/nn/layer_scope.h"

namespace colossal::nn {

at::Tensor LatentProjection::latents(const at::Tensor& x, const StepContext& context) {
  const at::Tensor here = parts_.down->forward(x, context);
  const at::Tensor latents = parts_.move ? parts_.move(here, context) : here;
  if (parts_.down_biases.empty()) return latents;
  LayerScope scope = scope_of(parts_.down_biases.front());
  return latents + at::cat(used(parts_.down_biases, scope));
}

at::Tensor LatentProjection::forward(const at::Tensor& x, const StepContext& context) {
  const std::vector<at::Tensor> of_token =
      latents(x, context)
          .split_with_sizes({options_.query_rank, options_.key_value_rank, options_.rotary}, -1);
  const at::Tensor queries =
      parts_.query
          ? parts_.query->forward(x, context)
          : parts_.query_up->forward(parts_.query_norm->forward(of_token[0], context), context);
  const int64_t of_head = options_.plain + options_.value;
  const at::Tensor of_heads =
      parts_.key_value_up->forward(parts_.key_value_norm->forward(of_token[1], context), context)
          .unflatten(-1, {-1, of_head});
  const std::vector<at::Tensor> plain_values =
      of_heads.split_with_sizes({options_.plain, options_.value}, -1);
  std::vector<int64_t> sizes = plain_values[0].sizes().vec();
  sizes.back() = options_.rotary;
  const at::Tensor keys = at::cat({of_token[2].unsqueeze(-2).expand(sizes), plain_values[0]}, -1);
  return at::cat({queries, keys.flatten(-2), plain_values[1].flatten(-2)}, -1);
}

}  // namespace colossal::nn
