// DeiT (H. Touvron et al., "Training data-efficient image transformers & distillation through
// attention", 2020), as in transformers' DeiTForImageClassification and
// DeiTForMaskedImageModeling: ViT with a second prefix token.
#include "colossal/models/families/list.h"
#include "colossal/models/transformer_fields.h"
#include "colossal/models/vision_fields.h"

namespace colossal::models::deit {
namespace {

constexpr const char* kClass = "DeiTForImageClassification";

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_vision_fields(fields, {{"class_token"}, {"distillation_token"}});
  read_vit_mlp(fields, config);
  return config;
}

void read_scores(ConfigFields&, TransformerConfig& config) {
  set_scores(config, TransformerConfig::ScoredPosition::first);
}

WeightNames weight_names(const TransformerConfig& config) {
  WeightNames names = vit_names("deit", config);
  names.others.push_back(
      {"patch_embedding.distillation_token", "deit.embeddings.distillation_token"});
  return names;
}

}  // namespace

Family family() {
  return {.model_type = "deit",
          .architecture = kClass,
          .defaults = {{"hidden_size", 768},
                       {"intermediate_size", 3072},
                       {"num_hidden_layers", 12},
                       {"num_attention_heads", 12}},
          .read = read,
          .read_scores = read_scores,
          .read_reconstruction = read_reconstruction,
          .weights = weight_names,
          .presets = {vit_preset("deit-tiny", 12, 192, 3, 16, kClass),
                      vit_preset("deit-small", 12, 384, 6, 16, kClass),
                      vit_preset("deit-base", 12, 768, 12, 16, kClass)},
          .body = "deit.",
          .scoring_class = "ForImageClassification"};
}

}  // namespace colossal::models::deit
