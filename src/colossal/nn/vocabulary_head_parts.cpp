#include "colossal/nn/vocabulary_head_parts.h"

#include <ATen/ops/cat.h>

#include <vector>

#include "colossal/nn/layer_scope.h"
#include "colossal/ops/product/fused_linear.h"
#include "colossal/ops/product/quantized_product.h"
#include "colossal/ops/upload.h"

namespace colossal::nn {

ops::LogitOptions VocabularyHeadParts::logit_options(const at::Tensor& x,
                                                     const StepContext& context, LayerScope& scope,
                                                     double temperature) const {
  ops::LogitOptions options{bias ? bias.use(scope) : at::Tensor(), logit_scale / temperature,
                            soft_cap / temperature};
  if (adapter.adapts(context)) {
    options.z = adapter.down_projected(x, context, scope);
    options.up = adapter.up(rows, scope);
  }
  return options;
}

at::Tensor VocabularyHeadParts::logits_of_wanted(const at::Tensor& x, const at::Tensor& wanted,
                                                 const StepContext& context,
                                                 double temperature) const {
  LayerScope scope("vocabulary_head");
  std::vector<at::Tensor> parts;
  if (table.quantized()) {
    parts.push_back(ops::quantized_linear(x, {{table.whole()->quantized}, {}}));
  } else {
    table.blocks("vocabulary_head")([&](const at::Tensor& of_block, int64_t) {
      parts.push_back(ops::fused_linear(x, {{of_block}, {}}));
    });
  }
  const at::Tensor products = parts.size() == 1 ? parts.front() : at::cat(parts, -1);
  if (!context.services.adapted_rows.empty()) {
    adapter.add_request_adapters(products.flatten(0, -2), x.flatten(0, -2), rows, wanted, context);
  }
  return ops::logits_from_products(products, logit_options(x, context, scope, temperature));
}

at::Tensor wanted_rows(const at::Tensor& rows, const at::Tensor& wanted) {
  return rows.index_select(0, ops::upload(wanted, rows.device()));
}

}  // namespace colossal::nn
