// SigLIP (X. Zhai et al., "Sigmoid Loss for Language Image Pre-Training", 2023): both towers as in
// transformers' SiglipModel, and the tower for images alone as in SiglipForImageClassification.
#include <fmt/format.h>

#include <cmath>

#include "colossal/models/clip_fields.h"
#include "colossal/models/families/list.h"
#include "colossal/models/vision_fields.h"

namespace colossal::models::siglip {
namespace {

constexpr const char* kClass = "SiglipForImageClassification";
constexpr const char* kBoth = "SiglipModel";

bool has_both_towers(const ConfigFields& fields) {
  return fields.json().value("architectures", nlohmann::json()) == nlohmann::json::array({kBoth});
}

TransformerConfig read(ConfigFields& fields) {
  return read_image_tower(fields, {.prefix = {},
                                   .defaults = {{"hidden_size", 768},
                                                {"intermediate_size", 3072},
                                                {"num_hidden_layers", 12},
                                                {"num_attention_heads", 12},
                                                {"patch_size", 16},
                                                {"hidden_act", "gelu_pytorch_tanh"},
                                                {"layer_norm_eps", 1e-6}},
                                   .pooling_head = has_both_towers(fields)});
}

void read_scores(ConfigFields&, TransformerConfig& config) {
  set_scores(config, TransformerConfig::ScoredPosition::mean_of_tokens);
}

TextTower read_texts(ConfigFields& fields, TransformerConfig& images) {
  const nlohmann::json defaults{{"vocab_size", 32000},
                                {"hidden_size", 768},
                                {"intermediate_size", 3072},
                                {"num_hidden_layers", 12},
                                {"num_attention_heads", 12},
                                {"max_position_embeddings", 64},
                                {"hidden_act", "gelu_pytorch_tanh"},
                                {"layer_norm_eps", 1e-6},
                                {"pad_token_id", 1},
                                {"eos_token_id", 49407}};
  TextTower tower = read_text_tower(fields, {.defaults = defaults, .causal = false});
  if (tower.features == 0) tower.features = tower.transformer.hidden;
  if (tower.features != images.hidden) {
    throw FieldError({"text_config.projection_size", "vision_config.hidden_size"}, "",
                     fmt::format("texts have vectors of {} features, images of {}; they must have "
                                 "as many",
                                 tower.features, images.hidden));
  }
  images.attention_pooling = true;
  tower.pooled = TextTower::Pooled::last;
  tower.projection_bias = true;
  tower.loss = TextTower::Loss::sigmoid;
  tower.logit_scale = std::log(10);  // section 3.2 of the paper
  tower.logit_bias = -10;
  return tower;
}

// Adds the names of AttentionPooling. Files have its queries, keys and values in one layer.
void add_pooling(const TransformerConfig& images, WeightNames& names) {
  const int64_t hidden = images.hidden;
  int64_t begin = 0;
  for (const char* layer : {"cross_query", "cross_key", "cross_value"}) {
    const LayerMapping::Rows rows{{{begin, begin + hidden}}, 3 * hidden};
    for (const char* kind : {"weight", "bias"}) {
      names.others.push_back({.ours = fmt::format("pooling.{}.{}", layer, kind),
                              .theirs = fmt::format("vision_model.head.attention.in_proj_{}", kind),
                              .rows = rows});
    }
    begin += hidden;
  }
  names.others.push_back({"pooling.probe.value", "vision_model.head.probe"});
  names.others.push_back(
      {"pooling.cross_attention_output", "vision_model.head.attention.out_proj"});
  names.others.push_back({"pooling.mlp_norm", "vision_model.head.layernorm"});
  names.others.push_back({"pooling.mlp_up", "vision_model.head.mlp.fc1"});
  names.others.push_back({"pooling.mlp_down", "vision_model.head.mlp.fc2"});
}

WeightNames weight_names(const TransformerConfig& images) {
  WeightNames names = tower_names(images);
  names.others.push_back({"text_projection", "text_model.head"});
  add_pooling(images, names);
  return names;
}

}  // namespace

Family family() {
  return {
      .model_type = "siglip",
      .architecture = kClass,
      .simplify = use_whole_tower_configs,
      .read = read,
      .read_scores = read_scores,
      .read_text_tower = read_texts,
      .weights = weight_names,
      .presets = {tower_preset("siglip-base-patch16", kBoth, {}, 16, {}),
                  tower_preset("siglip-large-patch16", kBoth, {24, 1024, 16}, 16, {24, 1024, 16})},
      .scoring_class = "ForImageClassification"};
}

}  // namespace colossal::models::siglip
