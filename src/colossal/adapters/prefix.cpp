#include "colossal/adapters/prefix.h"

#include <array>
#include <charconv>
#include <string_view>

namespace colossal::adapters {

nn::AdapterOptions adapter_options(const PrefixSettings& settings) {
  return {.virtual_tokens = settings.virtual_tokens,
          .virtual_initializer =
              settings.begins_with_zeros ? nn::Initializer::zeros() : nn::Initializer::normal(1),
          .adapted = [](const std::string&) { return std::nullopt; }};
}

nlohmann::json shaping_fields(const PrefixSettings& settings, const PrefixedModel& model) {
  return {{"peft_type", kPrefixKind},      {"num_virtual_tokens", settings.virtual_tokens},
          {"num_layers", model.layers},    {"num_attention_heads", model.kv_heads},
          {"token_dim", model.features()}, {"num_transformer_submodules", 1}};
}

nlohmann::json peft_config(const PrefixSettings& settings, const PrefixedModel& model,
                           const std::string& base, bool scores) {
  nlohmann::json config = shaping_fields(settings, model);
  config.update({{"task_type", scores ? "SEQ_CLS" : "CAUSAL_LM"},
                 {"base_model_name_or_path", base},
                 {"prefix_projection", false},
                 {"encoder_hidden_size", model.features()},
                 {"inference_mode", true}});
  return config;
}

PrefixFolder read_prefix_config(const PeftConfigReader& config) {
  const auto number = [&](const char* field) {
    const auto found = config.positive<int64_t>(field, 0);
    if (found == 0) config.refuse(field, "must be a number above 0");
    return found;
  };
  const int64_t modules = config.positive<int64_t>("num_transformer_submodules", 1);
  if (modules != 1) {
    config.refuse("num_transformer_submodules", "a decoder has 1");
  }
  const int64_t heads = number("num_attention_heads"), features = number("token_dim");
  if (features % heads != 0) {
    config.refuse("token_dim", fmt::format("{} heads need a multiple of that", heads));
  }
  return {.settings = {.virtual_tokens = number("num_virtual_tokens")},
          .model = {number("num_layers"), heads, features / heads}};
}

std::optional<PrefixParameter> find_prefix_parameter(const std::string& parameter) {
  constexpr std::string_view kBlocks = "blocks.";
  std::string_view name = parameter;
  if (!name.starts_with(kBlocks)) return std::nullopt;
  name.remove_prefix(kBlocks.size());
  PrefixParameter found;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), found.layer);
  name.remove_prefix(static_cast<size_t>(end - name.data()));
  found.of_values = name == ".attention.virtual_values.weight";
  if (error != std::errc() || (!found.of_values && name != ".attention.virtual_keys.weight")) {
    return std::nullopt;
  }
  return found;
}

TensorSlice slice_in_files(const PrefixParameter& parameter, const PrefixedModel& model) {
  const int64_t features = model.features();
  const int64_t place = 2 * parameter.layer + (parameter.of_values ? 1 : 0);
  return {.name = "prompt_embeddings",
          .columns = {place * features, (place + 1) * features},
          .num_columns = 2 * model.layers * features};
}

}  // namespace colossal::adapters
