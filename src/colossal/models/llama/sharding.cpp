#include "colossal/models/llama/sharding.h"

namespace colossal::models::llama {

parallel::Sharding sharding(const Config& config) {
  using Cut = parallel::LinearSharding::Cut;
  using By = parallel::LinearSharding::By;
  const Segment inner{config.intermediate_size};
  return {.products = {{"query", {.cut = Cut::outputs, .by = By::queries}},
                       {"key", {.cut = Cut::outputs, .by = By::keys}},
                       {"value", {.cut = Cut::outputs, .by = By::keys}},
                       {"attention_output", {.cut = Cut::inputs, .by = By::queries}},
                       {"mlp_gate", {.cut = Cut::outputs, .segments = {inner}}},
                       {"mlp_up", {.cut = Cut::outputs, .segments = {inner}}},
                       {"mlp_down", {.cut = Cut::inputs, .segments = {inner}}}},
          .hidden_size = config.hidden_size,
          .heads = config.num_attention_heads,
          .kv_heads = config.num_key_value_heads,
          .head_size = config.head_dim};
}

}  // namespace colossal::models::llama
