#include "colossal/models/gpt2/sharding.h"

namespace colossal::models::gpt2 {

parallel::Sharding sharding(const Config& config) {
  using Cut = parallel::LinearSharding::Cut;
  const Segment heads{config.n_embd, config.n_embd / config.n_head};  // cut between heads only
  const Segment inner{config.inner()};
  return {{"qkv", {Cut::outputs, {heads, heads, heads}}},
          {"attention_output", {Cut::inputs, {heads}}},
          {"mlp_up", {Cut::outputs, {inner}}},
          {"mlp_down", {Cut::inputs, {inner}}}};
}

}  // namespace colossal::models::gpt2
