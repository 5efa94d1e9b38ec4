#include "colossal/models/gpt2/sharding.h"

namespace colossal::models::gpt2 {

parallel::Sharding sharding(const Config& config) {
  using Cut = parallel::LinearSharding::Cut;
  const Segment heads{config.n_embd, config.n_embd / config.n_head};  // cut between heads only
  const Segment inner{config.inner()};
  return {.products = {{"qkv", {.cut = Cut::outputs, .segments = {heads, heads, heads}}},
                       {"attention_output", {.cut = Cut::inputs, .segments = {heads}}},
                       {"mlp_up", {.cut = Cut::outputs, .segments = {inner}}},
                       {"mlp_down", {.cut = Cut::inputs, .segments = {inner}}}},
          .hidden_size = config.n_embd,
          .heads = config.n_head,
          .kv_heads = config.n_head,
          .head_size = heads.unit};
}

}  // namespace colossal::models::gpt2
