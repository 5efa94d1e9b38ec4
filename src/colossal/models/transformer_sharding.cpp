#include "colossal/models/transformer_sharding.h"

namespace colossal::models {

parallel::Sharding sharding(const TransformerConfig& config) {
  using Cut = parallel::LinearSharding::Cut;
  using By = parallel::LinearSharding::By;
  const Segment inner{config.inner}, shared_inner{config.shared_inner};
  parallel::Sharding sharding{
      .products = {{"attention_output",
                    {.cut = Cut::inputs, .by = By::queries, .head_size = config.size_of_value()}},
                   {"mlp_gate", {.cut = Cut::outputs, .segments = {inner}}},
                   {"mlp_up", {.cut = Cut::outputs, .segments = {inner}}},
                   {"mlp_down", {.cut = Cut::inputs, .segments = {inner}}},
                   {"shared_mlp_gate", {.cut = Cut::outputs, .segments = {shared_inner}}},
                   {"shared_mlp_up", {.cut = Cut::outputs, .segments = {shared_inner}}},
                   {"shared_mlp_down", {.cut = Cut::inputs, .segments = {shared_inner}}}},
      .hidden_size = config.hidden,
      .heads = config.heads,
      .kv_heads = config.kv_heads,
      .head_size = config.head_size};
  if (config.encoder_layers > 0 || config.attention_pooling) {
    sharding.products["cross_query"] = {.cut = Cut::outputs, .by = By::queries};
    sharding.products["cross_key"] =
        sharding.products["cross_value"] = {.cut = Cut::outputs, .by = By::keys};
    sharding.products["cross_attention_output"] = sharding.products["attention_output"];
  }
  if (config.stored_in_out) {
    const Segment heads{config.hidden, config.head_size};  // divided between heads only
    sharding.products["qkv"] = {.cut = Cut::outputs, .segments = {heads, heads, heads}};
    sharding.products["attention_output"] = {.cut = Cut::inputs, .segments = {heads}};
  } else if (config.has_latents()) {
    const int64_t plain = config.head_size - config.attention.front().rotary.channels;
    sharding.products["query"] =
        sharding.products["query_up"] = {.cut = Cut::outputs, .by = By::queries};
    sharding.products["key_value_up"] = {
        .cut = Cut::outputs, .by = By::queries, .head_size = plain + config.size_of_value()};
  } else {
    sharding.products["query"] = {.cut = Cut::outputs, .by = By::queries};
    sharding.products["key"] = sharding.products["value"] = {.cut = Cut::outputs, .by = By::keys};
  }
  return sharding;
}

}  // namespace colossal::models
