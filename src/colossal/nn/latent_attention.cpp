#include "colossal/nn/latent_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <algorithm>

#include "colossal/nn/layer_scope.h"
#include "colossal/ops/product/grouped_product.h"

namespace colossal::nn {
namespace {

// Multiplies each head by its weight. x: [.., heads, in]; weights: [heads, out, in]. Returns [..,
// heads, out].
at::Tensor product_of_each_head(const at::Tensor& x, const at::Tensor& weights) {
  const int64_t heads = weights.size(0),
                tokens = x.numel() / std::max<int64_t>(1, heads * x.size(-1));
  const at::Tensor rows = x.reshape({tokens, heads, x.size(-1)}).transpose(0, 1).flatten(0, 1);
  const std::vector<int64_t> counts(static_cast<size_t>(heads), tokens);
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weights.size(1);
  return ops::grouped_product(rows.contiguous(), counts, {weights})
      .view({heads, tokens, weights.size(1)})
      .transpose(0, 1)
      .reshape(shape);
}

}  // namespace

at::Tensor LatentAttentionLayer::latents(const at::Tensor& x, const StepContext& context) {
  const at::Tensor here = parts_.down->forward(x, context);
  const at::Tensor latents = parts_.move ? parts_.move(here, context) : here;
  if (parts_.down_biases.empty()) return latents;
  LayerScope scope = scope_of(parts_.down_biases.front());
  return latents + at::cat(used(parts_.down_biases, scope));
}

LatentAttentionLayer::TokenProjections LatentAttentionLayer::project(const at::Tensor& x,
                                                                     const StepContext& context) {
  const std::vector<at::Tensor> parts =
      latents(x, context)
          .split_with_sizes({options_.query_rank, options_.key_value_rank, options_.rotary}, -1);
  return {.queries = parts_.query ? parts_.query->forward(x, context)
                                  : parts_.query_up->forward(
                                        parts_.query_norm->forward(parts[0], context), context),
          .latent = parts_.key_value_norm->forward(parts[1], context),
          .rotary = parts[2]};
}

at::Tensor LatentAttentionLayer::attend_by_heads(const TokenProjections& token,
                                                 const StepContext& context) {
  const at::Tensor of_heads = parts_.key_value_up->forward(token.latent, context)
                                  .unflatten(-1, {-1, options_.plain + options_.value});
  const std::vector<at::Tensor> plain_values =
      of_heads.split_with_sizes({options_.plain, options_.value}, -1);
  std::vector<int64_t> shape = plain_values[0].sizes().vec();
  shape.back() = options_.rotary;
  const at::Tensor keys = at::cat({token.rotary.unsqueeze(-2).expand(shape), plain_values[0]}, -1);
  return parts_.attention->forward(
      at::cat({token.queries, keys.flatten(-2), plain_values[1].flatten(-2)}, -1), {}, context);
}

at::Tensor LatentAttentionLayer::attend_absorbed(const TokenProjections& token,
                                                 const StepContext& context) {
  LayerScope scope = scope_of(parts_.key_value_weight);
  const at::Tensor weights = parts_.key_value_weight.use(scope).view(
      {-1, options_.plain + options_.value, options_.key_value_rank});
  const at::Tensor to_plain = weights.narrow(1, 0, options_.plain);
  const at::Tensor to_values = weights.narrow(1, options_.plain, options_.value);
  const std::vector<at::Tensor> queries =
      token.queries.unflatten(-1, {weights.size(0), options_.head_size()})
          .split_with_sizes({options_.rotary, options_.plain}, -1);
  const at::Tensor absorbed = product_of_each_head(queries[1], to_plain.transpose(1, 2));
  const at::Tensor seen =
      parts_.absorbed_attention->forward(at::cat({at::cat({queries[0], absorbed}, -1).flatten(-2),
                                                  token.rotary, token.latent, token.latent},
                                                 -1),
                                         {}, context);
  return product_of_each_head(seen.unflatten(-1, {weights.size(0), options_.key_value_rank}),
                              to_values)
      .flatten(-2);
}

at::Tensor LatentAttentionLayer::forward(const at::Tensor& x, const StepContext& context) {
  const TokenProjections token = project(x, context);
  return context.services.key_values && parts_.absorbed_attention ? attend_absorbed(token, context)
                                                                  : attend_by_heads(token, context);
}

}  // namespace colossal::nn
