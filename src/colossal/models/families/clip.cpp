// The tower for images of CLIP (A. Radford et al., "Learning Transferable Visual Models From
// Natural Language Supervision", 2021), as in transformers' CLIPForImageClassification.
#include "colossal/models/clip_fields.h"
#include "colossal/models/families/list.h"
#include "colossal/models/vision_fields.h"

namespace colossal::models::clip {
namespace {

constexpr const char* kClass = "CLIPForImageClassification";

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config =
      read_image_tower(fields, {.prefix = {{.name = "class_token", .is_vector = true}},
                                .defaults = {{"hidden_size", 768},
                                             {"intermediate_size", 3072},
                                             {"num_hidden_layers", 12},
                                             {"num_attention_heads", 12},
                                             {"patch_size", 32},
                                             {"hidden_act", "quick_gelu"},
                                             {"layer_norm_eps", 1e-5},
                                             {"initializer_range", 0.02}}});
  config.patches->bias = false;
  config.embedding_norm = true;
  return config;
}

void read_scores(ConfigFields&, TransformerConfig& config) {
  set_scores(config, TransformerConfig::ScoredPosition::mean_of_patches);
  config.scores_before_norm = true;
}

WeightNames weight_names(const TransformerConfig&) {
  WeightNames names = image_tower_names();
  names.others.push_back(
      {"patch_embedding.class_token", "vision_model.embeddings.class_embedding"});
  names.others.push_back(
      {"embedding_norm", "vision_model.pre_layrnorm"});  // as transformers spells
  return names;
}

}  // namespace

Family family() {
  return {.model_type = "clip",
          .architecture = kClass,
          .simplify = use_whole_tower_configs,
          .read = read,
          .read_scores = read_scores,
          .weights = weight_names,
          .presets = {tower_preset("clip-vit-base-patch32", kClass, 12, 768, 12, 32),
                      tower_preset("clip-vit-base-patch16", kClass, 12, 768, 12, 16),
                      tower_preset("clip-vit-large-patch14", kClass, 24, 1024, 16, 14)},
          .scoring_class = "ForImageClassification"};
}

}  // namespace colossal::models::clip
