#include "colossal/models/t5_fields.h"

#include <cmath>
#include <string>

#include "colossal/models/transformer_fields.h"

namespace colossal::models {
namespace {

// Sets activation and gate from a name such as "relu" or "gated-gelu".
void read_feed_forward(ConfigFields& fields, const char* fallback, TransformerConfig& config) {
  constexpr std::string_view kGated = "gated-";
  const std::string found = fields.text("feed_forward_proj", fallback);
  config.gated = found.starts_with(kGated);
  std::string name = config.gated ? found.substr(kGated.size()) : found;
  if (found == "gated-gelu") name = "gelu_new";
  const auto activation = ops::activation_of(name);
  if (!activation) {
    throw FieldError({"feed_forward_proj"}, fmt::format("feed_forward_proj = \"{}\"", found),
                     fmt::format("expected an activation, or \"gated-\" and an activation: {}",
                                 fmt::join(ops::activation_names(), ", ")));
  }
  config.activation = *activation;
}

// The standard deviations of new weights in Mesh TensorFlow, which T5 was trained with.
void set_initial_ranges(double factor, TransformerConfig& config) {
  const auto root = [&](int64_t size) { return factor / std::sqrt(static_cast<double>(size)); };
  config.initializer_range = root(config.hidden);
  config.initial_ranges = {.embedding = factor,
                           .head = factor,
                           .relative_bias = root(config.hidden),
                           .query = root(config.hidden * config.head_size),
                           .attention_output = root(config.heads * config.head_size),
                           .mlp_down = root(config.inner)};
}

}  // namespace

TransformerConfig read_t5_fields(ConfigFields& fields, const char* feed_forward) {
  TransformerConfig config;
  config.vocabulary = fields.required_size("vocab_size", kMaximumVocabulary);
  config.hidden = fields.required_size("d_model", kMaximumWidth);
  config.encoder_layers = fields.required_size("num_layers", kMaximumLayers);
  config.layers = config.encoder_layers +
                  fields.size("num_decoder_layers", config.encoder_layers, kMaximumLayers);
  config.heads = config.kv_heads = fields.required_size("num_heads", kMaximumWidth);
  config.head_size = fields.size("d_kv", 64, kMaximumWidth);
  config.inner = fields.required_size("d_ff", 4 * kMaximumWidth);
  config.decoder_start_token = fields.count("decoder_start_token_id", 0, config.vocabulary - 1);
  config.relative_buckets = fields.size("relative_attention_num_buckets", 32, kMaximumPositions);
  config.relative_distance = fields.size("relative_attention_max_distance", 128, kMaximumPositions);
  if (config.relative_buckets < 4 || config.relative_buckets % 2 != 0 ||
      config.relative_distance <= config.relative_buckets / 2) {
    throw FieldError({"relative_attention_num_buckets", "relative_attention_max_distance"}, "",
                     fmt::format("relative_attention_num_buckets = {} with "
                                 "relative_attention_max_distance = {}: expected an even number of "
                                 "buckets from 4 on, and a distance above half of it",
                                 config.relative_buckets, config.relative_distance));
  }
  config.attention.front().scale = 1;
  // The positions are relative: a text may be longer than those of the training.
  config.positions = fields.size("n_positions", 512, kMaximumPositions);
  config.norm_epsilon = fields.number("layer_norm_epsilon", 1e-6, 0, 1);
  read_feed_forward(fields, feed_forward, config);
  config.embedding_dropout = config.attention_dropout = config.attention_output_dropout =
      config.mlp_inner_dropout = config.mlp_dropout = config.final_dropout =
          fields.dropout("dropout_rate", 0.1);
  config.tied_head = fields.flag("tie_word_embeddings", true);
  set_initial_ranges(fields.number("initializer_factor", 1, 0, 1e3), config);
  fields.require("is_encoder_decoder", true);
  for (const char* field : {"classifier_dropout", "is_decoder", "dense_act_fn", "is_gated_act",
                            "output_past", "tokenizer_class"}) {
    fields.ignore(field);  // transformers does not read them in this class, or computes them
  }
  return config;
}

WeightNames t5_weight_names(const TransformerConfig& config) {
  const std::vector<LayerMapping> attention{{"attention_norm", "layer.0.layer_norm"},
                                            {"query", "layer.0.SelfAttention.q"},
                                            {"key", "layer.0.SelfAttention.k"},
                                            {"value", "layer.0.SelfAttention.v"},
                                            {"attention_output", "layer.0.SelfAttention.o"}};
  WeightNames names{
      .blocks = "decoder.block.",
      .of_a_block = attention,
      .others = {{"token_embedding", "shared"},
                 {"encoder_relative_bias",
                  "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
                 {"relative_bias", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
                 {"encoder_norm", "encoder.final_layer_norm"},
                 {"final_norm", "decoder.final_layer_norm"},
                 {"head", "lm_head"}},
      .copies = {{"encoder.embed_tokens.weight", "shared.weight"},
                 {"decoder.embed_tokens.weight", "shared.weight"}},
      .encoder_layers = config.encoder_layers,
      .encoder_blocks = "encoder.block.",
      .of_an_encoder_block = attention,
      // Of T5's first release, which does not use it.
      .unused = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias."}};
  names.of_a_block.insert(
      names.of_a_block.end(),
      {{"cross_attention_norm", "layer.1.layer_norm"},
       {"cross_query", "layer.1.EncDecAttention.q"},
       {"cross_key", "layer.1.EncDecAttention.k"},
       {"cross_value", "layer.1.EncDecAttention.v"},
       {"cross_attention_output", "layer.1.EncDecAttention.o"},
       {"mlp_norm", "layer.2.layer_norm"},
       {"mlp_gate", "layer.2.DenseReluDense.wi_0"},
       {"mlp_up", config.gated ? "layer.2.DenseReluDense.wi_1" : "layer.2.DenseReluDense.wi"},
       {"mlp_down", "layer.2.DenseReluDense.wo"}});
  names.of_an_encoder_block.insert(
      names.of_an_encoder_block.end(),
      {{"mlp_norm", "layer.1.layer_norm"},
       {"mlp_gate", "layer.1.DenseReluDense.wi_0"},
       {"mlp_up", config.gated ? "layer.1.DenseReluDense.wi_1" : "layer.1.DenseReluDense.wi"},
       {"mlp_down", "layer.1.DenseReluDense.wo"}});
  return names;
}

}  // namespace colossal::models
