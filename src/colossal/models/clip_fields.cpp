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
    if (tower.has_pooling_head) vision.replace("vision_use_head", false);
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

WeightNames image_tower_names() {
  return {
      .blocks = "vision_model.encoder.layers.",
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
                 {"score", "classifier"}},
      .computed = {".position_ids"},
      .unused = {"text_model.", "text_projection.", "visual_projection.", "logit_scale",
                 "logit_bias", "vision_model.head."}};
}

Preset tower_preset(const char* name, const char* architecture, int64_t layers, int64_t hidden,
                    int64_t heads, int64_t patch) {
  return {name,
          {{"vision_config",
            {{"hidden_size", hidden},
             {"intermediate_size", 4 * hidden},
             {"num_hidden_layers", layers},
             {"num_attention_heads", heads},
             {"patch_size", patch}}},
           {"architectures", {architecture}},
           {"num_labels", 1000}}};
}

}  // namespace colossal::models
