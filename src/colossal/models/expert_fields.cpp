#include "colossal/models/expert_fields.h"

#include <algorithm>
#include <set>

namespace colossal::models {
namespace {

constexpr int64_t kMaximumExperts = 65536;

std::set<int64_t> read_dense_layers(ConfigFields& fields, int64_t layers) {
  const nlohmann::json list = fields.list("mlp_only_layers");
  std::set<int64_t> dense;
  for (const nlohmann::json& layer : list) {
    if (!layer.is_number_integer() || layer < 0 || layer >= layers) {
      throw FieldError({"mlp_only_layers"}, fmt::format("mlp_only_layers = {}", list.dump()),
                       fmt::format("expected numbers of layers, from 0 to {}", layers - 1));
    }
    dense.insert(layer.get<int64_t>());
  }
  return dense;
}

}  // namespace

nn::RouterOptions read_router(ConfigFields& fields, const RouterDefaults& defaults) {
  nn::RouterOptions router;
  router.experts = fields.size(defaults.experts_field, defaults.experts, kMaximumExperts);
  router.chosen = fields.size("num_experts_per_tok", defaults.chosen, kMaximumExperts);
  if (router.chosen > router.experts) {
    throw FieldError({"num_experts_per_tok", defaults.experts_field}, "",
                     fmt::format("num_experts_per_tok = {} is more than {} = {}", router.chosen,
                                 defaults.experts_field, router.experts));
  }
  return router;
}

nn::RouterLosses read_router_losses(ConfigFields& fields, double coefficient) {
  const double read = fields.number("router_aux_loss_coef", coefficient, 0, 1e6);
  if (!fields.flag("output_router_logits", false)) return {};
  return {.balance = read, .over = nn::RouterLosses::Over::layers};
}

void read_sparse_layers(ConfigFields& fields, TransformerConfig& config) {
  const int64_t step = fields.size("decoder_sparse_step", 1, kMaximumLayers);
  const std::set<int64_t> dense = read_dense_layers(fields, config.layers);
  config.layers_with_experts.clear();
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    config.layers_with_experts.push_back(!dense.contains(layer) && (layer + 1) % step == 0);
  }
}

void name_experts(WeightNames& names, const TransformerConfig& config, const ExpertNames& experts) {
  const int64_t count = config.router.experts;
  names.set("router", std::string(experts.router));
  for (const auto& [ours, theirs] : {std::pair{"experts.gate", experts.gate},
                                     {"experts.up", experts.up},
                                     {"experts.down", experts.down}}) {
    names.of_a_block.push_back({.ours = ours, .theirs = std::string(theirs), .stacked = count});
  }
}

}  // namespace colossal::models
