// ViT (A. Dosovitskiy et al., "An Image Is Worth 16x16 Words: Transformers for Image Recognition at
// Scale", 2020), as in transformers' ViTForImageClassification and ViTForMaskedImageModeling.
#include "colossal/models/families/list.h"
#include "colossal/models/transformer_fields.h"
#include "colossal/models/vision_fields.h"

namespace colossal::models::vit {
namespace {

constexpr const char* kClass = "ViTForImageClassification";

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_vision_fields(fields, {{"class_token"}});
  read_vit_mlp(fields, config);
  return config;
}

void read_scores(ConfigFields&, TransformerConfig& config) {
  set_scores(config, TransformerConfig::ScoredPosition::first);
}

WeightNames weight_names(const TransformerConfig& config) {
  return vit_names("vit", config);
}

}  // namespace

Family family() {
  return {.model_type = "vit",
          .architecture = kClass,
          .defaults = {{"hidden_size", 768},
                       {"intermediate_size", 3072},
                       {"num_hidden_layers", 12},
                       {"num_attention_heads", 12}},
          .read = read,
          .read_scores = read_scores,
          .read_reconstruction = read_reconstruction,
          .weights = weight_names,
          .presets = {vit_preset("vit-tiny", 12, 192, 3, 16, kClass),
                      vit_preset("vit-small", 12, 384, 6, 16, kClass),
                      vit_preset("vit-base", 12, 768, 12, 16, kClass),
                      vit_preset("vit-large", 24, 1024, 16, 16, kClass),
                      vit_preset("vit-huge", 32, 1280, 16, 14, kClass)},
          .body = "vit.",
          .scoring_class = "ForImageClassification"};
}

}  // namespace colossal::models::vit
