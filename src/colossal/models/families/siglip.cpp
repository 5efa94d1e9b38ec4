// The tower for images of SigLIP (X. Zhai et al., "Sigmoid Loss for Language Image Pre-Training",
// 2023), as in transformers' SiglipForImageClassification.
#include "colossal/models/clip_fields.h"
#include "colossal/models/families/list.h"
#include "colossal/models/vision_fields.h"

namespace colossal::models::siglip {
namespace {

constexpr const char* kClass = "SiglipForImageClassification";

TransformerConfig read(ConfigFields& fields) {
  return read_image_tower(fields, {.prefix = {},
                                   .defaults = {{"hidden_size", 768},
                                                {"intermediate_size", 3072},
                                                {"num_hidden_layers", 12},
                                                {"num_attention_heads", 12},
                                                {"patch_size", 16},
                                                {"hidden_act", "gelu_pytorch_tanh"},
                                                {"layer_norm_eps", 1e-6}},
                                   .has_pooling_head = true});
}

void read_scores(ConfigFields&, TransformerConfig& config) {
  set_scores(config, TransformerConfig::ScoredPosition::mean_of_tokens);
}

WeightNames weight_names(const TransformerConfig&) {
  return image_tower_names();
}

}  // namespace

Family family() {
  return {.model_type = "siglip",
          .architecture = kClass,
          .simplify = use_whole_tower_configs,
          .read = read,
          .read_scores = read_scores,
          .weights = weight_names,
          .presets = {tower_preset("siglip-base-patch16", kClass, 12, 768, 12, 16),
                      tower_preset("siglip-large-patch16", kClass, 24, 1024, 16, 16)},
          .scoring_class = "ForImageClassification"};
}

}  // namespace colossal::models::siglip
