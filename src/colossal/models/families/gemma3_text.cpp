// Gemma 3's language model (Gemma Team, "Gemma 3 Technical Report", 2025), as in transformers'
// Gemma3ForCausalLM. Five of six layers have a sliding window and rotary embeddings with another
// base.
#include "colossal/models/families/list.h"
#include "colossal/models/gemma_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::gemma3_text {
namespace {

// rope_parameters has an object for each kind of layer. In older files, layers with a sliding
// window have rope_local_base_freq, and the other layers rope_theta and rope_scaling, which adds to
// rope_parameters where a file has both.
void simplify(nlohmann::json& config) {
  const nlohmann::json given = ConfigFields(config).object("rope_parameters");
  const nlohmann::json scaling = ConfigFields(config).object("rope_scaling");
  config.erase("rope_parameters");
  if (given.is_null() && scaling.is_null()) return;
  nlohmann::json full = nlohmann::json::object();
  if (given.is_object()) full = ConfigFields(given).object("full_attention");
  if (full.is_null()) full = nlohmann::json::object();
  if (scaling.is_object()) full.update(scaling);
  if (full.contains("rope_theta")) config["rope_theta"] = full["rope_theta"];
  full.erase("rope_theta");
  config["rope_scaling"] = full.empty() ? nlohmann::json() : full;
  if (given.is_null()) return;
  const nlohmann::json sliding = ConfigFields(given).object("sliding_attention");
  if (sliding.is_null()) return;
  if (sliding.value("rope_type", nlohmann::json("default")) != "default") {
    throw FieldError(
        {"rope_parameters"}, "rope_parameters.sliding_attention = " + sliding.dump(),
        "expected rope_type \"default\": layers with a sliding window need no longer context");
  }
  if (sliding.contains("rope_theta")) config["rope_local_base_freq"] = sliding["rope_theta"];
}

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_gemma2_fields(fields, 131072);
  config.query_key_norm = {.kind = nn::QueryKeyNormOptions::Kind::rms,
                           .unit_offset = true,
                           .epsilon = config.norm_epsilon};
  fields.require("attn_logit_softcapping", nullptr);  // transformers does not apply it
  const std::vector<bool> sliding = read_window_pattern(fields, config, 6);
  const ops::RotaryOptions of_full = read_rotary(fields, config, {.base = 1e6});
  const double local_base = fields.number("rope_local_base_freq", 10000, 1, 1e12);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    config.attention[layer].rotary =
        sliding[layer] ? ops::RotaryOptions{.base = local_base} : of_full;
  }
  return config;
}

struct Size {
  int64_t layers, hidden, inner, heads, kv_heads, window;
};

Preset sized(const char* name, const Size& size, const nlohmann::json& fields = {}) {
  Preset preset{name,
                {{"vocab_size", 262144},
                 {"hidden_size", size.hidden},
                 {"intermediate_size", size.inner},
                 {"num_hidden_layers", size.layers},
                 {"num_attention_heads", size.heads},
                 {"num_key_value_heads", size.kv_heads},
                 {"head_dim", 256},
                 {"sliding_window", size.window}}};
  if (!fields.is_null()) preset.fields.update(fields);
  return preset;
}

// The text model of a multimodal model: for longer texts, and with the vocabulary of text_config.
Preset multimodal_model_type(const char* name, const Size& size,
                             nlohmann::json fields = nlohmann::json::object()) {
  fields.update(
      {{"vocab_size", 262208}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8}}}});
  return sized(name, size, fields);
}

}  // namespace

Family family() {
  return {.model_type = "gemma3_text",
          .architecture = "Gemma3ForCausalLM",
          .defaults = {{"vocab_size", 262208},
                       {"hidden_size", 2304},
                       {"intermediate_size", 9216},
                       {"num_hidden_layers", 26},
                       {"num_attention_heads", 8},
                       {"num_key_value_heads", 4}},
          .simplify = simplify,
          .read = read,
          .weights = gemma2_weight_names,
          .presets = {sized("gemma3-270m", {18, 640, 2048, 4, 1, 512},
                            {{"max_position_embeddings", 32768}}),
                      sized("gemma3-1b", {26, 1152, 6912, 4, 1, 512},
                            {{"max_position_embeddings", 32768}}),
                      multimodal_model_type("gemma3-4b", {34, 2560, 10240, 8, 4, 1024}),
                      multimodal_model_type("gemma3-12b", {48, 3840, 15360, 16, 8, 1024}),
                      multimodal_model_type("gemma3-27b", {62, 5376, 21504, 32, 16, 1024},
                                            {{"head_dim", 128}, {"query_pre_attn_scalar", 168}})},
          .multimodal_model_type = "gemma3"};
}

}  // namespace colossal::models::gemma3_text
