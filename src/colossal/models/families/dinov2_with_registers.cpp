// DINOv2 with register tokens (T. Darcet et al., "Vision Transformers Need Registers", 2023), as in
// transformers' Dinov2WithRegistersForImageClassification.
#include "colossal/models/dinov2_fields.h"
#include "colossal/models/families/list.h"

namespace colossal::models::dinov2_with_registers {
namespace {

TransformerConfig read(ConfigFields& fields) {
  const int64_t registers = fields.count("num_register_tokens", 4, 1 << 10);
  std::vector<nn::PrefixTokens> prefix{{"class_token"}};
  if (registers > 0) {
    prefix.push_back({.name = "register_tokens", .count = registers, .has_positions = false});
  }
  TransformerConfig config = read_dinov2_fields(fields, std::move(prefix), 16);
  config.patches->mask_token = nn::PatchEmbeddingOptions::MaskToken::frozen;
  return config;
}

WeightNames weight_names(const TransformerConfig& config) {
  WeightNames names = dinov2_names("dinov2_with_registers", config);
  names.others.push_back(
      {"patch_embedding.register_tokens", "dinov2_with_registers.embeddings.register_tokens"});
  return names;
}

}  // namespace

Family family() {
  return {.model_type = "dinov2_with_registers",
          .architecture = "Dinov2WithRegistersForImageClassification",
          .defaults = kDinov2Defaults,
          .read = read,
          .read_scores = read_dinov2_scores,
          .weights = weight_names,
          .presets = {},
          .body = "dinov2_with_registers.",
          .scoring_class = "ForImageClassification"};
}

}  // namespace colossal::models::dinov2_with_registers
