// BART (M. Lewis et al., "BART: Denoising Sequence-to-Sequence Pre-training for Natural Language
// Generation, Translation, and Comprehension", 2019), as in transformers'
// BartForConditionalGeneration.
#include <cmath>

#include "colossal/models/families/list.h"
#include "colossal/models/transformer_fields.h"

namespace colossal::models::bart {
namespace {

// Throws FieldError if the encoder's and the decoder's field of this name differ.
void require_equal(ConfigFields& fields, const std::string& name, int64_t of_encoder) {
  const int64_t of_decoder = fields.required_size("decoder_" + name, 4 * kMaximumWidth);
  if (of_decoder == of_encoder) return;
  throw FieldError(
      {"decoder_" + name, "encoder_" + name}, "",
      fmt::format("decoder_{} = {}, encoder_{} = {}: encoder and decoder must have the "
                  "same",
                  name, of_decoder, name, of_encoder));
}

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_gpt2_style_decoder(
      fields,
      {.hidden = "d_model", .layers = "encoder_layers", .heads = "encoder_attention_heads"});
  config.encoder_layers = config.layers;
  config.layers += fields.required_size("decoder_layers", kMaximumLayers);
  require_equal(fields, "attention_heads", config.heads);
  config.inner = fields.required_size("encoder_ffn_dim", 4 * kMaximumWidth);
  require_equal(fields, "ffn_dim", config.inner);
  config.decoder_start_token = fields.count("decoder_start_token_id", 2, config.vocabulary - 1);
  config.learned_positions = config.embedding_norm = true;
  config.positions = fields.size("max_position_embeddings", 1024, kMaximumPositions);
  config.position_offset = 2;
  config.norm_place = TransformerConfig::NormPlace::residual;
  config.final_norm = false;
  config.qkv_bias = config.attention_output_bias = true;
  config.mlp_up_bias = config.mlp_down_bias = true;
  config.activation = read_activation(fields, "activation_function", "gelu");
  if (fields.flag("scale_embedding", false)) {
    config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
  }
  config.initializer_range = fields.number("init_std", 0.02, 0, 1e3);
  config.embedding_dropout = config.attention_output_dropout = config.mlp_dropout =
      fields.dropout("dropout", 0.1);
  config.attention_dropout = fields.dropout("attention_dropout", 0);
  config.mlp_inner_dropout = fields.dropout("activation_dropout", 0);
  fields.require("tie_word_embeddings", true);  // else there are three tables
  config.tied_head = true;
  fields.require("encoder_layerdrop", 0.0);
  fields.require("decoder_layerdrop", 0.0);
  fields.require("is_encoder_decoder", true);
  fields.require("add_bias_logits", false);
  fields.require("normalize_before", false);
  fields.require("add_final_layer_norm", false);
  for (const char* field :
       {"classifier_dropout", "classif_dropout", "is_decoder", "is_encoder", "num_hidden_layers",
        "normalize_embedding", "gradient_checkpointing", "use_cache"}) {
    fields.ignore(field);  // transformers does not read them in this class
  }
  return config;
}

WeightNames weight_names(const TransformerConfig& config) {
  return {.blocks = "model.decoder.layers.",
          .of_a_block = {{"query", "self_attn.q_proj"},
                         {"key", "self_attn.k_proj"},
                         {"value", "self_attn.v_proj"},
                         {"attention_output", "self_attn.out_proj"},
                         {"attention_output_norm", "self_attn_layer_norm"},
                         {"cross_query", "encoder_attn.q_proj"},
                         {"cross_key", "encoder_attn.k_proj"},
                         {"cross_value", "encoder_attn.v_proj"},
                         {"cross_attention_output", "encoder_attn.out_proj"},
                         {"cross_attention_output_norm", "encoder_attn_layer_norm"},
                         {"mlp_up", "fc1"},
                         {"mlp_down", "fc2"},
                         {"mlp_output_norm", "final_layer_norm"}},
          .others = {{"token_embedding", "model.shared"},
                     {"encoder_position_embedding", "model.encoder.embed_positions"},
                     {"encoder_embedding_norm", "model.encoder.layernorm_embedding"},
                     {"position_embedding", "model.decoder.embed_positions"},
                     {"embedding_norm", "model.decoder.layernorm_embedding"},
                     {"head", "lm_head"}},
          .copies = {{"model.encoder.embed_tokens.weight", "model.shared.weight"},
                     {"model.decoder.embed_tokens.weight", "model.shared.weight"}},
          .encoder_layers = config.encoder_layers,
          .encoder_blocks = "model.encoder.layers.",
          .unused = {"final_logits_bias"}};
}

Preset sized(const char* name, int64_t layers, int64_t hidden, int64_t heads) {
  return {name,
          {{"vocab_size", 50265},
           {"d_model", hidden},
           {"encoder_layers", layers},
           {"decoder_layers", layers},
           {"encoder_attention_heads", heads},
           {"decoder_attention_heads", heads},
           {"encoder_ffn_dim", 4 * hidden},
           {"decoder_ffn_dim", 4 * hidden},
           {"dropout", 0.0}}};
}

}  // namespace

Family family() {
  return {.model_type = "bart",
          .architecture = "BartForConditionalGeneration",
          .defaults = {{"vocab_size", 50265},
                       {"d_model", 1024},
                       {"encoder_layers", 12},
                       {"decoder_layers", 12},
                       {"encoder_attention_heads", 16},
                       {"decoder_attention_heads", 16},
                       {"encoder_ffn_dim", 4096},
                       {"decoder_ffn_dim", 4096}},
          .other_names = {{"hidden_size", "d_model"},
                          {"num_attention_heads", "encoder_attention_heads"},
                          {"num_hidden_layers", "encoder_layers"}},
          .read = read,
          .weights = weight_names,
          .presets = {sized("bart-tiny", 2, 128, 2), sized("bart-base", 6, 768, 12),
                      sized("bart-large", 12, 1024, 16)},
          .body = "model."};
}

}  // namespace colossal::models::bart
