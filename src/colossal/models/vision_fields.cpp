#include "colossal/models/vision_fields.h"

#include <fmt/format.h>

#include <utility>

#include "colossal/models/transformer_fields.h"

namespace colossal::models {
namespace {

constexpr int64_t kMostPixels = 1 << 14;  // along a side of an image

// Returns the height and the width in the field `name`: one number for both, or a list of two.
std::pair<int64_t, int64_t> read_sides(ConfigFields& fields, const std::string& name,
                                       int64_t fallback) {
  if (fields.is_list(name)) {
    const std::vector<double> sides = fields.numbers(name, 2, 1, kMostPixels);
    return {static_cast<int64_t>(sides[0]), static_cast<int64_t>(sides[1])};
  }
  const int64_t side = fields.size(name, fallback, kMostPixels);
  return {side, side};
}

}  // namespace

nn::PatchEmbeddingOptions read_patches(ConfigFields& fields, const TransformerConfig& config,
                                       std::vector<nn::PrefixTokens> prefix,
                                       int64_t default_patch) {
  const auto [height, width] = read_sides(fields, "image_size", 224);
  const auto [patch, patch_width] = read_sides(fields, "patch_size", default_patch);
  if (patch != patch_width) {
    throw FieldError({"patch_size"}, "", "patches that are not square are not supported");
  }
  if (height < patch || width < patch) {
    throw FieldError(
        {"image_size", "patch_size"}, "",
        fmt::format("an image of {} x {} pixels has no whole patch of {}", height, width, patch));
  }
  return {.height = height,
          .width = width,
          .channels = fields.size("num_channels", 3, 1 << 10),
          .patch = patch,
          .features = config.hidden,
          .prefix = std::move(prefix),
          .initializer = nn::Initializer::normal(config.initializer_range)};
}

TransformerConfig read_vision_blocks(ConfigFields& fields, double default_norm_epsilon) {
  TransformerConfig config;
  config.hidden = fields.required_size("hidden_size", kMaximumWidth);
  config.layers = fields.required_size("num_hidden_layers", kMaximumLayers);
  config.heads = config.kv_heads = fields.required_size("num_attention_heads", kMaximumWidth);
  config.causal = false;
  config.norm = TransformerConfig::Norm::layer;
  config.norm_epsilon = fields.number("layer_norm_eps", default_norm_epsilon, 0, 1);
  config.qkv_bias = config.attention_output_bias = true;
  config.gated = false;
  config.mlp_up_bias = config.mlp_down_bias = true;
  config.activation = read_activation(fields, "hidden_act", "gelu");
  return config;
}

void read_number_of_labels(ConfigFields& fields) {
  if (fields.has("num_labels")) fields.size("num_labels", 2, kMaximumVocabulary);
}

TransformerConfig read_vision_fields(ConfigFields& fields, std::vector<nn::PrefixTokens> prefix,
                                     const VisionDefaults& defaults) {
  TransformerConfig config = read_vision_blocks(fields, defaults.norm_epsilon);
  if (fields.has("head_dim")) {
    config.head_size = fields.required_size("head_dim", kMaximumWidth);
  } else {
    set_head_size(config, "hidden_size", "num_attention_heads");
  }
  config.qkv_bias = fields.flag("qkv_bias", true);
  config.initializer_range = fields.number("initializer_range", 0.02, 0, 1e3);
  config.embedding_dropout = config.attention_output_dropout = config.mlp_dropout =
      fields.dropout("hidden_dropout_prob", 0);
  config.attention_dropout = fields.dropout("attention_probs_dropout_prob", 0);
  read_number_of_labels(fields);
  config.patches = read_patches(fields, config, std::move(prefix), defaults.patch);
  config.positions = config.patches->num_tokens();
  return config;
}

void read_vit_mlp(ConfigFields& fields, TransformerConfig& config) {
  config.inner = fields.required_size("intermediate_size", 4 * kMaximumWidth);
  for (const char* field : {"encoder_stride", "pooler_output_size", "pooler_act"}) {
    fields.ignore(field);  // of other heads
  }
}

void read_reconstruction(ConfigFields& fields, TransformerConfig& config) {
  const int64_t stride = fields.size("encoder_stride", 16, kMostPixels);
  nn::PatchEmbeddingOptions& patches = *config.patches;
  if (stride != patches.patch) {
    throw FieldError({"encoder_stride", "patch_size"}, "",
                     fmt::format("encoder_stride = {} is not patch_size = {}, so the reconstructed "
                                 "image would have another size; use encoder_stride = {}",
                                 stride, patches.patch, patches.patch));
  }
  config.reconstructs = true;
  patches.mask_token = nn::PatchEmbeddingOptions::MaskToken::trained;
}

void set_scores(TransformerConfig& config, TransformerConfig::ScoredPosition position) {
  config.scored_position = position;
  config.score_bias = true;
}

WeightNames vision_names(std::string_view body) {
  const auto named = [&](const char* name) { return fmt::format("{}.{}", body, name); };
  return {.blocks = named("encoder.layer."),
          .of_a_block = {{"query", "attention.attention.query"},
                         {"key", "attention.attention.key"},
                         {"value", "attention.attention.value"},
                         {"attention_output", "attention.output.dense"}},
          .others = {{"patch_embedding", named("embeddings.patch_embeddings.projection")},
                     {"patch_embedding.class_token", named("embeddings.cls_token")},
                     {"patch_embedding.mask_token", named("embeddings.mask_token")},
                     {"patch_embedding.positions", named("embeddings.position_embeddings")},
                     {"final_norm", named("layernorm")}},
          .unused = {named("pooler."), named("embeddings.mask_token"), "decoder."}};
}

WeightNames vit_names(std::string_view body, const TransformerConfig& config) {
  WeightNames names = vision_names(body);
  names.of_a_block.insert(names.of_a_block.end(), {{"attention_norm", "layernorm_before"},
                                                   {"mlp_norm", "layernorm_after"},
                                                   {"mlp_up", "intermediate.dense"},
                                                   {"mlp_down", "output.dense"}});
  names.others.push_back({"score", "classifier"});
  names.others.push_back(
      {.ours = "reconstruction.weight", .theirs = "decoder.0.weight", .num_ones = 2});
  names.others.push_back({"reconstruction.bias", "decoder.0.bias"});
  if (config.reconstructs) {  // heads of folders with other classes
    names.unused.insert(names.unused.end(),
                        {"classifier.", "cls_classifier.", "distillation_classifier."});
  }
  return names;
}

Preset vit_preset(const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t patch,
                  const char* architecture) {
  return {name,
          {{"hidden_size", hidden},
           {"intermediate_size", 4 * hidden},
           {"num_hidden_layers", layers},
           {"num_attention_heads", heads},
           {"patch_size", patch},
           {"architectures", {architecture}},
           {"num_labels", 1000}}};
}

}  // namespace colossal::models
