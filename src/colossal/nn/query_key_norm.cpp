#include "colossal/nn/query_key_norm.h"

#include <ATen/ops/cat.h>

#include "colossal/nn/layer_scope.h"
#include "colossal/ops/norm/head_norm.h"

namespace colossal::nn {
namespace {

// Returns one row per query head, then one row per key head. queries, keys: parameters of the
// norms, [heads, head_size], or [head_size] if all heads share them.
at::Tensor rows_of_heads(const at::Tensor& queries, const at::Tensor& keys,
                         const HeadCounts& here) {
  return at::cat(
      {queries.expand({here.queries, here.head_size}), keys.expand({here.keys, here.head_size})});
}

}  // namespace

at::Tensor NormOfEachHead::forward(const at::Tensor& qkv, const StepContext&) {
  LayerScope scope(queries_.name);
  const at::Tensor heads = qkv.unflatten(-1, {here_.queries + 2 * here_.keys, here_.head_size});
  const NormParts::Tensors queries = queries_.use(scope), keys = keys_.use(scope);
  const at::Tensor weight = rows_of_heads(queries.weight, keys.weight, here_);
  at::Tensor bias;
  if (queries_.bias) bias = rows_of_heads(queries.bias, keys.bias, here_);
  return ops::norm_heads(heads, weight, bias, queries_.unit_offset, queries_.centered,
                         queries_.epsilon)
      .flatten(-2);
}

at::Tensor NormOverAllHeads::forward(const at::Tensor& qkv, const StepContext& context) {
  const int64_t queries = here_.queries * here_.head_size, keys = here_.keys * here_.head_size;
  const std::vector<at::Tensor> parts = qkv.split_with_sizes({queries, keys, keys}, -1);
  return at::cat(
      {queries_->forward(parts[0], context), keys_->forward(parts[1], context), parts[2]}, -1);
}

}  // namespace colossal::nn
