// CLIP (A. Radford et al., "Learning Transferable Visual Models From Natural Language Supervision",
// 2021): both towers as in transformers' CLIPModel, and the tower for images alone as in
// CLIPForImageClassification.
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

constexpr int64_t kOldEndToken = 2;  // of configurations that transformers wrote before 2023

TextTower read_texts(ConfigFields& fields, TransformerConfig&) {
  TextTower tower = read_text_tower(fields, {.defaults = {{"vocab_size", 49408},
                                                          {"hidden_size", 512},
                                                          {"intermediate_size", 2048},
                                                          {"num_hidden_layers", 12},
                                                          {"num_attention_heads", 8},
                                                          {"max_position_embeddings", 77},
                                                          {"hidden_act", "quick_gelu"},
                                                          {"layer_norm_eps", 1e-5},
                                                          {"initializer_range", 0.02},
                                                          {"pad_token_id", 1},
                                                          {"eos_token_id", 49407}}});
  tower.features = fields.size("projection_dim", 512, kMaximumWidth);
  tower.pooled =
      tower.end_token == kOldEndToken ? TextTower::Pooled::highest : TextTower::Pooled::end;
  tower.logit_scale = fields.number("logit_scale_init_value", 2.6592, -100, 100);
  return tower;
}

WeightNames weight_names(const TransformerConfig& images) {
  WeightNames names = tower_names(images);
  names.others.push_back({"projection", "visual_projection"});
  names.others.push_back({"text_projection", "text_projection"});
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
          .read_text_tower = read_texts,
          .weights = weight_names,
          .presets = {tower_preset("clip-vit-base-patch32", "CLIPModel", {}, 32, {12, 512, 8}),
                      tower_preset("clip-vit-base-patch16", "CLIPModel", {}, 16, {12, 512, 8}),
                      tower_preset("clip-vit-large-patch14", "CLIPModel", {24, 1024, 16}, 14,
                                   {12, 768, 12})},
          .scoring_class = "ForImageClassification"};
}

}  // namespace colossal::models::clip
