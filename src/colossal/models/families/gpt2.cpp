// GPT-2 (A. Radford et al., "Language Models are Unsupervised Multitask Learners", 2019), as in
// transformers' GPT2LMHeadModel.
#include <cmath>

#include "colossal/models/families/list.h"
#include "colossal/models/transformer_fields.h"

namespace colossal::models::gpt2 {
namespace {

// Sets the scales of scores: 1 / sqrt(head_size) or 1, optionally divided by the layer's number.
void read_scales(ConfigFields& fields, TransformerConfig& config) {
  const double scale = fields.flag("scale_attn_weights", true)
                           ? 1 / std::sqrt(static_cast<double>(config.head_size))
                           : 1;
  config.attention.front().scale = scale;
  if (!fields.flag("scale_attn_by_inverse_layer_idx", false)) return;
  config.attention.resize(config.layers);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    config.attention[layer].scale = scale / static_cast<double>(layer + 1);
  }
}

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config =
      read_gpt2_style_decoder(fields, {.hidden = "n_embd", .layers = "n_layer", .heads = "n_head"});
  config.learned_positions = config.stored_in_out = true;
  config.qkv_bias = config.attention_output_bias = true;
  config.mlp_up_bias = config.mlp_down_bias = true;
  config.positions = fields.required_size("n_positions", kMaximumPositions);
  config.inner = read_mlp_size(fields, "n_inner", config);
  config.norm_epsilon = fields.number("layer_norm_epsilon", 1e-5, 0, 1);
  config.initializer_range = fields.number("initializer_range", 0.02, 0, 1e3);
  // Keeps the variance of the residual stream from growing with depth.
  config.residual_initializer_range =
      config.initializer_range / std::sqrt(2.0 * static_cast<double>(config.layers));
  config.embedding_dropout = fields.dropout("embd_pdrop", 0.1);
  config.attention_dropout = fields.dropout("attn_pdrop", 0.1);
  config.attention_output_dropout = config.mlp_dropout = fields.dropout("resid_pdrop", 0.1);
  config.tied_head = fields.flag("tie_word_embeddings", true);
  config.activation = read_activation(fields, "activation_function", "gelu_new");
  read_scales(fields, config);
  fields.flag("reorder_and_upcast_attn", false);  // only affects rounding
  fields.require("add_cross_attention", false);
  fields.ignore("n_ctx");
  ignore_classifier(fields);
  return config;
}

Preset sized(const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t vocabulary) {
  return {name,
          {{"vocab_size", vocabulary},
           {"n_positions", 1024},
           {"n_embd", hidden},
           {"n_layer", layers},
           {"n_head", heads},
           {"embd_pdrop", 0.0},
           {"attn_pdrop", 0.0},
           {"resid_pdrop", 0.0}}};
}

WeightNames weight_names(const TransformerConfig&) {
  return {.blocks = "transformer.h.",
          .of_a_block = {{"attention_norm", "ln_1"},
                         {"qkv", "attn.c_attn"},
                         {"attention_output", "attn.c_proj"},
                         {"mlp_norm", "ln_2"},
                         {"mlp_up", "mlp.c_fc"},
                         {"mlp_down", "mlp.c_proj"}},
          .others = {{"token_embedding", "transformer.wte"},
                     {"position_embedding", "transformer.wpe"},
                     {"final_norm", "transformer.ln_f"},
                     {"head", "lm_head"}},
          .computed = {".attn.bias", ".attn.masked_bias"}};
}

}  // namespace

Family family() {
  return {
      .model_type = "gpt2",
      .architecture = "GPT2LMHeadModel",
      .defaults = {{"vocab_size", 50257},
                   {"n_positions", 1024},
                   {"n_embd", 768},
                   {"n_layer", 12},
                   {"n_head", 12}},
      .other_names = {{"hidden_size", "n_embd"},
                      {"max_position_embeddings", "n_positions"},
                      {"num_attention_heads", "n_head"},
                      {"num_hidden_layers", "n_layer"}},
      .read = read,
      .weights = weight_names,
      .presets = {sized("gpt2-tiny", 4, 256, 4, 512), sized("gpt2-124m", 12, 768, 12, 50304),
                  sized("gpt2-355m", 24, 1024, 16, 50304), sized("gpt2-774m", 36, 1280, 20, 50304),
                  sized("gpt2-1558m", 48, 1600, 25, 50304)}};
}

}  // namespace colossal::models::gpt2
