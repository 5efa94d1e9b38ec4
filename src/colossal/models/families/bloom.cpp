// BLOOM (BigScience Workshop, "BLOOM: A 176B-Parameter Open-Access Multilingual Language Model",
// 2022), as in transformers' BloomForCausalLM. ALiBi is the only positional information.
#include "colossal/models/families/list.h"
#include "colossal/models/transformer_fields.h"

namespace colossal::models::bloom {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_gpt2_style_decoder(
      fields, {.hidden = "hidden_size", .layers = "n_layer", .heads = "n_head"});
  config.activation = ops::Activation::gelu_tanh;
  config.embedding_norm = true;
  config.alibi = 1;
  config.qkv_bias = config.attention_output_bias = true;
  config.mlp_up_bias = config.mlp_down_bias = true;
  config.inner = 4 * config.hidden;
  // ALiBi has no last position; this is the longest sequence in training.
  config.positions = fields.size("seq_length", 2048, kMaximumPositions);
  config.norm_epsilon = fields.number("layer_norm_epsilon", 1e-5, 0, 1);
  config.initializer_range = fields.number("initializer_range", 0.02, 0, 1e3);
  config.attention_output_dropout = config.mlp_dropout = fields.dropout("hidden_dropout", 0);
  config.attention_dropout = fields.dropout("attention_dropout", 0);
  config.residual_of_norm = fields.flag("apply_residual_connection_post_layernorm", false);
  config.tied_head = fields.flag("tie_word_embeddings", true);
  for (const char* field : {"slow_but_exact", "offset_alibi", "n_inner", "masked_softmax_fusion",
                            "attention_softmax_in_fp32", "bias_dropout_fusion", "skip_bias_add",
                            "skip_bias_add_qkv", "unk_token_id"}) {
    fields.ignore(field);
  }
  return config;
}

Preset sized(const char* name, int64_t layers, int64_t hidden, int64_t heads) {
  return {
      name,
      {{"vocab_size", 250880}, {"hidden_size", hidden}, {"n_layer", layers}, {"n_head", heads}}};
}

WeightNames weight_names(const TransformerConfig& config) {
  return {.blocks = "transformer.h.",
          .of_a_block = {{"attention_norm", "input_layernorm"},
                         {"query", "self_attention.query_key_value", grouped_queries(config)},
                         {"key", "self_attention.query_key_value", grouped_keys(config)},
                         {"value", "self_attention.query_key_value", grouped_values(config)},
                         {"attention_output", "self_attention.dense"},
                         {"mlp_norm", "post_attention_layernorm"},
                         {"mlp_up", "mlp.dense_h_to_4h"},
                         {"mlp_down", "mlp.dense_4h_to_h"}},
          .others = {{"token_embedding", "transformer.word_embeddings"},
                     {"embedding_norm", "transformer.word_embeddings_layernorm"},
                     {"final_norm", "transformer.ln_f"},
                     {"head", "lm_head"}}};
}

}  // namespace

Family family() {
  return {.model_type = "bloom",
          .architecture = "BloomForCausalLM",
          .defaults = {{"vocab_size", 250880}, {"hidden_size", 64}, {"n_layer", 2}, {"n_head", 8}},
          .other_names = {{"n_embed", "hidden_size"},
                          {"num_hidden_layers", "n_layer"},
                          {"num_attention_heads", "n_head"}},
          .read = read,
          .weights = weight_names,
          .presets = {sized("bloom-560m", 24, 1024, 16), sized("bloom-1b7", 24, 2048, 16),
                      sized("bloom-7b1", 30, 4096, 32), sized("bloom-176b", 70, 14336, 112)}};
}

}  // namespace colossal::models::bloom
