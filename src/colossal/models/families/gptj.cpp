// GPT-J (B. Wang and A. Komatsuzaki, 2021), as in transformers' GPTJForCausalLM: parallel attention
// and MLP with one norm; a part of each head has rotary embeddings.
#include "colossal/models/families/list.h"
#include "colossal/models/transformer_fields.h"

namespace colossal::models::gptj {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config =
      read_gpt2_style_decoder(fields, {.hidden = "n_embd", .layers = "n_layer", .heads = "n_head"});
  config.parallel_branches = config.shared_norm = true;
  config.mlp_up_bias = config.mlp_down_bias = config.head_bias = true;
  config.positions = fields.size("n_positions", 2048, kMaximumPositions);
  config.inner = read_mlp_size(fields, "n_inner", config);
  const int64_t turning = fields.size("rotary_dim", 64, kMaximumWidth);
  if (turning > config.head_size || turning % 2 != 0) {
    throw FieldError(
        {"rotary_dim"}, fmt::format("rotary_dim = {}", turning),
        fmt::format("expected an even number of at most n_embd / n_head = {}", config.head_size));
  }
  config.attention.front().rotary = {
      .base = 10000, .channels = turning < config.head_size ? turning : 0, .interleaved = true};
  config.activation = read_activation(fields, "activation_function", "gelu_new");
  config.norm_epsilon = fields.number("layer_norm_epsilon", 1e-5, 0, 1);
  config.initializer_range = fields.number("initializer_range", 0.02, 0, 1e3);
  config.embedding_dropout = fields.dropout("embd_pdrop", 0);
  config.attention_dropout = fields.dropout("attn_pdrop", 0);
  config.attention_output_dropout = config.mlp_dropout = fields.dropout("resid_pdrop", 0);
  config.tied_head = fields.flag("tie_word_embeddings", false);
  for (const char* field : {"n_ctx", "rotary", "scale_attn_weights"}) fields.ignore(field);
  ignore_classifier(fields);
  return config;
}

WeightNames weight_names(const TransformerConfig&) {
  return {.blocks = "transformer.h.",
          .of_a_block = {{"attention_norm", "ln_1"},
                         {"query", "attn.q_proj"},
                         {"key", "attn.k_proj"},
                         {"value", "attn.v_proj"},
                         {"attention_output", "attn.out_proj"},
                         {"mlp_up", "mlp.fc_in"},
                         {"mlp_down", "mlp.fc_out"}},
          .others = {{"token_embedding", "transformer.wte"},
                     {"final_norm", "transformer.ln_f"},
                     {"head", "lm_head"}},
          .computed = {".attn.bias", ".attn.masked_bias", ".attn.embed_positions"}};
}

}  // namespace

Family family() {
  return {.model_type = "gptj",
          .architecture = "GPTJForCausalLM",
          .defaults = {{"vocab_size", 50400}, {"n_embd", 4096}, {"n_layer", 28}, {"n_head", 16}},
          .other_names = {{"hidden_size", "n_embd"},
                          {"max_position_embeddings", "n_positions"},
                          {"num_attention_heads", "n_head"},
                          {"num_hidden_layers", "n_layer"}},
          .read = read,
          .weights = weight_names,
          .presets = {{"gptj-6b",
                       {{"vocab_size", 50400},
                        {"n_positions", 2048},
                        {"n_embd", 4096},
                        {"n_layer", 28},
                        {"n_head", 16},
                        {"rotary_dim", 64}}}}};
}

}  // namespace colossal::models::gptj
