#include "colossal/models/clip_fields.h"

#include <fmt/format.h>

#include <utility>

#include "colossal/models/transformer_fields.h"
#include "colossal/models/vision_fields.h"

namespace colossal::models {
namespace {

TransformerConfig read_tower(ConfigFields& fields) {
  TransformerConfig config = read_vision_blocks(fields, 1e-5);
  set_head_size(config, "hidden_size", "num_attention_heads");
  config.inner = fields.required_size("intermediate_size", 4 * kMaximumWidth);
  if (fields.has("initializer_range")) {  // SigLIP has none
    config.initializer_range = fields.number("initializer_range", 0.02, 0, 1e3);
  }
  config.attention_dropout = fields.dropout("attention_dropout", 0);
  for (const char* field : {"projection_dim", "initializer_factor"}) fields.ignore(field);
  return config;
}

}  // namespace

TransformerConfig read_image_tower(ConfigFields& fields, ImageTower tower) {
  for (const char* field :
       {"text_config", "projection_dim", "logit_scale_init_value", "initializer_factor"}) {
    fields.ignore(field);
  }
  read_number_of_labels(fields);
  return fields.inside("vision_config", tower.defaults, [&](ConfigFields& vision) {
    TransformerConfig config = read_tower(vision);
    config.patches = read_patches(vision, config, std::move(tower.prefix), 16);
    config.patches->positions_with_batch = false;
    config.positions = config.patches->num_tokens();
    if (tower.pooling_head && *tower.pooling_head) {
      vision.require("vision_use_head", true);
    } else if (tower.pooling_head) {
      vision.replace("vision_use_head", false);
    }
    return config;
  });
}

void use_whole_tower_configs(nlohmann::json& config) {
  for (const char* name : {"vision_config", "text_config"}) {
    const auto whole = config.find(fmt::format("{}_dict", name));
    if (whole == config.end()) continue;
    if (whole->is_object()) config[name] = *whole;
    config.erase(fmt::format("{}_dict", name));
  }
}

TextTower read_text_tower(ConfigFields& fields, const TextTowerForm& form) {
  return fields.inside("text_config", form.defaults, [&](ConfigFields& text) {
    TextTower tower;
    tower.transformer = read_tower(text);
    tower.transformer.vocabulary = text.required_size("vocab_size", kMaximumVocabulary);
    tower.transformer.positions = text.required_size("max_position_embeddings", kMaximumPositions);
    tower.transformer.learned_positions = true;
    tower.transformer.causal = form.causal;
    const int64_t last = tower.transformer.vocabulary - 1;
    tower.end_token = text.count("eos_token_id", 0, kMaximumVocabulary);
    tower.pad_token = text.count("pad_token_id", 0, last);
    if (text.has("projection_size")) {
      tower.features = text.required_size("projection_size", kMaximumWidth);
    }
    text.ignore("bos_token_id");
    return tower;
  });
}

WeightNames tower_names(const TransformerConfig& images) {
  return {
      .blocks = "text_model.encoder.layers.",
      .of_a_block = {{"attention_norm", "layer_norm1"},
                     {"query", "self_attn.q_proj"},
                     {"key", "self_attn.k_proj"},
                     {"value", "self_attn.v_proj"},
                     {"attention_output", "self_attn.out_proj"},
                     {"mlp_norm", "layer_norm2"},
                     {"mlp_up", "mlp.fc1"},
                     {"mlp_down", "mlp.fc2"}},
      .others = {{"patch_embedding", "vision_model.embeddings.patch_embedding"},
                 {"patch_embedding.positions", "vision_model.embeddings.position_embedding.weight"},
                 {"final_norm", "vision_model.post_layernorm"},
                 {"score", "classifier"},
                 {"text_token_embedding", "text_model.embeddings.token_embedding"},
                 {"text_position_embedding", "text_model.embeddings.position_embedding"},
                 {"text_final_norm", "text_model.final_layer_norm"},
                 {"logit_scale.value", "logit_scale"},
                 {"logit_bias.value", "logit_bias"}},
      .computed = {".position_ids"},
      .encoder_layers = images.layers,
      .encoder_blocks = "vision_model.encoder.layers.",
      .unused = {"text_model.", "text_projection.", "visual_projection.", "logit_scale",
                 "logit_bias", "vision_model.head."}};
}

Preset tower_preset(const char* name, const char* architecture, const TowerSizes& images,
                    int64_t patch, const TowerSizes& texts) {
  const auto sizes = [](const TowerSizes& tower) {
    return nlohmann::json{{"hidden_size", tower.hidden},
                          {"intermediate_size", 4 * tower.hidden},
                          {"num_hidden_layers", tower.layers},
                          {"num_attention_heads", tower.heads}};
  };
  nlohmann::json vision = sizes(images);
  vision["patch_size"] = patch;
  return {name,
          {{"vision_config", vision},
           {"text_config", sizes(texts)},
           {"projection_dim", texts.hidden},
           {"architectures", {architecture}}}};
}

}  // namespace colossal::models
