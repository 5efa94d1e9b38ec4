// OPT (S. Zhang et al., "OPT: Open Pre-trained Transformer Language Models", 2022), as in
// transformers' OPTForCausalLM.
#include "colossal/models/families/list.h"
#include "colossal/models/transformer_fields.h"

namespace colossal::models::opt {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_gpt2_style_decoder(
      fields,
      {.hidden = "hidden_size", .layers = "num_hidden_layers", .heads = "num_attention_heads"});
  config.learned_positions = true;
  config.position_offset = 2;
  config.inner = fields.required_size("ffn_dim", 4 * kMaximumWidth);
  config.positions = fields.size("max_position_embeddings", 2048, kMaximumPositions);
  config.activation = read_activation(fields, "activation_function", "relu");
  const bool bias = fields.flag("enable_bias", true);
  config.qkv_bias = config.attention_output_bias = bias;
  config.mlp_up_bias = config.mlp_down_bias = bias;
  config.norm_weight = fields.flag("layer_norm_elementwise_affine", true);
  const bool before = fields.flag("do_layer_norm_before", true);
  config.norm_place =
      before ? TransformerConfig::NormPlace::before : TransformerConfig::NormPlace::residual;
  const bool removed = fields.flag("_remove_final_layer_norm", false);
  config.final_norm = before && !removed;
  config.initializer_range = fields.number("init_std", 0.02, 0, 1e3);
  config.attention_output_dropout = config.mlp_dropout = fields.dropout("dropout", 0.1);
  config.attention_dropout = fields.dropout("attention_dropout", 0);
  config.tied_head = fields.flag("tie_word_embeddings", true);
  fields.require("layerdrop", 0.0);
  const int64_t features = fields.size("word_embed_proj_dim", config.hidden, kMaximumWidth);
  if (features != config.hidden) {
    throw FieldError({"word_embed_proj_dim"}, fmt::format("word_embed_proj_dim = {}", features),
                     fmt::format("expected hidden_size = {}: embeddings of another size are not "
                                 "supported",
                                 config.hidden));
  }
  fields.ignore("activation_dropout");  // transformers does not read it
  return config;
}

Preset sized(const char* name, int64_t layers, int64_t hidden, int64_t heads) {
  return {name,
          {{"vocab_size", 50272},
           {"hidden_size", hidden},
           {"ffn_dim", 4 * hidden},
           {"num_hidden_layers", layers},
           {"num_attention_heads", heads},
           {"dropout", 0.0}}};
}

WeightNames weight_names(const TransformerConfig&) {
  return {.blocks = "model.decoder.layers.",
          .of_a_block = {{"attention_norm", "self_attn_layer_norm"},
                         {"attention_output_norm", "self_attn_layer_norm"},
                         {"query", "self_attn.q_proj"},
                         {"key", "self_attn.k_proj"},
                         {"value", "self_attn.v_proj"},
                         {"attention_output", "self_attn.out_proj"},
                         {"mlp_norm", "final_layer_norm"},
                         {"mlp_output_norm", "final_layer_norm"},
                         {"mlp_up", "fc1"},
                         {"mlp_down", "fc2"}},
          .others = {{"token_embedding", "model.decoder.embed_tokens"},
                     {"position_embedding", "model.decoder.embed_positions"},
                     {"final_norm", "model.decoder.final_layer_norm"},
                     {"head", "lm_head"}}};
}

}  // namespace

Family family() {
  return {.model_type = "opt",
          .architecture = "OPTForCausalLM",
          .defaults = {{"vocab_size", 50272},
                       {"hidden_size", 768},
                       {"ffn_dim", 3072},
                       {"num_hidden_layers", 12},
                       {"num_attention_heads", 12}},
          .read = read,
          .weights = weight_names,
          .presets = {sized("opt-125m", 12, 768, 12), sized("opt-1.3b", 24, 2048, 32),
                      sized("opt-6.7b", 32, 4096, 32), sized("opt-66b", 64, 9216, 72)}};
}

}  // namespace colossal::models::opt
