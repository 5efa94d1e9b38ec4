#include "colossal/adapters/peft_folder.h"

#include <algorithm>
#include <map>
#include <set>

#include "colossal/adapters/peft_config_reader.h"
#include "colossal/adapters/peft_names.h"
#include "colossal/adapters/whole_weights.h"
#include "colossal/base/error.h"
#include "colossal/io/json.h"
#include "colossal/io/safetensors.h"

namespace colossal::adapters {
namespace {

namespace fs = std::filesystem;

// Returns peft's target_modules: the last part of a module's name ("q_proj"), or its whole name if
// a module without an adapter has the same last part.
std::vector<std::string> target_modules(const std::vector<Product>& products,
                                        const std::vector<Product>& adapted) {
  const auto end_of = [](const std::string& module) {
    return module.substr(module.rfind('.') + 1);
  };
  std::set<std::string> modules, ends_of_others, targets;
  for (const Product& product : adapted) {
    if (!product.is_of_experts()) modules.insert(product.module);
  }
  for (const Product& product : products) {
    if (!modules.contains(product.module)) ends_of_others.insert(end_of(product.module));
  }
  for (const std::string& module : modules) {
    const std::string end = end_of(module);
    targets.insert(ends_of_others.contains(end) ? module : end);
  }
  return {targets.begin(), targets.end()};
}

// Returns peft's target_parameters: the stacks of experts that have adapters.
nlohmann::json target_parameters(const std::vector<Product>& adapted) {
  std::set<std::string> targets;
  for (const Product& product : adapted) {
    if (product.is_of_experts()) targets.insert(product.module);
  }
  return targets.empty() ? nlohmann::json() : nlohmann::json(targets);
}

// Returns the values of modules that differ from `otherwise`, by whole name, so that the order of
// the patterns has no effect.
template <typename ValueOf, typename Value>
nlohmann::json pattern_of(const std::vector<Product>& adapted, const ValueOf& value_of,
                          Value otherwise) {
  nlohmann::json object = nlohmann::json::object();
  for (const Product& product : adapted) {
    const Value value = value_of(product.module);
    if (value != otherwise) object[product.module] = value;
  }
  return object;
}

// Throws if the adapter was initialized with a method that changes the model's weights: the adapter
// does not fit the original weights.
void require_whole_weights(const PeftConfigReader& config) {
  constexpr const char* kField = "init_lora_weights";
  if (config.flag(kField) || config.is_false(kField)) return;
  const std::string found = config.text(kField);
  for (const char* taken : {"pissa", "olora", "corda", "loftq"}) {
    if (!found.starts_with(taken)) continue;
    config.refuse(kField,
                  "this method changes the model's weights, so the adapter does not fit the "
                  "original model; save it with path_initial_model_for_weight_conversion");
  }
}

LoraSettings read_lora_config(const PeftConfigReader& config) {
  config.require("bias", "none");
  require_whole_weights(config);
  for (const char* field : {"lora_bias", "layer_replication", "trainable_token_indices",
                            "use_qalora", "use_bdlora", "arrow_config"}) {
    config.require_nothing(field);
  }
  return {.rank = config.positive<int64_t>("r", 8),
          .alpha = config.positive<double>("lora_alpha", 8),
          .dropout = 0,
          .rslora = config.flag("use_rslora"),
          .dora = config.flag("use_dora"),
          .rank_pattern = config.pattern<int64_t>("rank_pattern"),
          .alpha_pattern = config.pattern<double>("alpha_pattern"),
          .modules_to_save = config.strings("modules_to_save")};
}

constexpr std::string_view kExperts = ".experts";
constexpr std::string_view kInside = ".base_layer";

// Replaces the names of layers of experts by the names of their parameters. peft wraps such a layer
// once for each parameter with an adapter; the inner wrapper is gate_up_proj.
std::set<std::string> with_parameters_of_experts(const std::set<std::string>& modules,
                                                 const std::vector<std::string>& targets) {
  std::set<std::string> named;
  const auto is_target = [&](const std::string& parameter) {
    return std::ranges::any_of(
        targets, [&](const std::string& target) { return names_module(target, parameter); });
  };
  for (const std::string& module : modules) {
    const bool is_inside = module.ends_with(kInside);
    const std::string layer = is_inside ? module.substr(0, module.size() - kInside.size()) : module;
    if (!layer.ends_with(kExperts)) {
      named.insert(module);
      continue;
    }
    const std::string first = layer + ".gate_up_proj", second = layer + ".down_proj";
    const bool has_both = modules.contains(layer + std::string(kInside));
    named.insert(is_inside || (!has_both && is_target(first)) ? first : second);
  }
  return named;
}

}  // namespace

nlohmann::json shaping_fields(const LoraSettings& settings, const std::vector<Product>& products,
                              const std::vector<Product>& adapted) {
  return {{"peft_type", "LORA"},
          {"r", settings.rank_in_files(settings.rank)},
          {"lora_alpha", settings.alpha_in_files(settings.alpha)},
          {"use_rslora", settings.rslora},
          {"modules_to_save", settings.modules_to_save.empty()
                                  ? nlohmann::json()
                                  : nlohmann::json(settings.modules_to_save)},
          {"use_dora", settings.dora},
          {"rank_pattern",
           pattern_of(
               adapted,
               [&](const auto& module) { return settings.rank_in_files(settings.rank_of(module)); },
               settings.rank_in_files(settings.rank))},
          {"alpha_pattern", pattern_of(
                                adapted,
                                [&](const auto& module) {
                                  return settings.alpha_in_files(settings.alpha_of(module));
                                },
                                settings.alpha_in_files(settings.alpha))},
          {"target_modules", target_modules(products, adapted)},
          {"target_parameters", target_parameters(adapted)}};
}

nlohmann::json peft_config(const LoraSettings& settings, const std::vector<Product>& products,
                           const std::vector<Product>& adapted, const BaseModel& base) {
  nlohmann::json config = shaping_fields(settings, products, adapted);
  nlohmann::json task = base.scores            ? "SEQ_CLS"
                        : base.encoder_decoder ? "SEQ_2_SEQ_LM"
                                               : "CAUSAL_LM";
  if (base.two_towers) task = nullptr;
  config.update({{"task_type", task},
                 {"base_model_name_or_path", base.folder},
                 {"lora_dropout", settings.dropout},
                 {"bias", "none"},
                 {"fan_in_fan_out", base.stored_in_out},
                 {"init_lora_weights", "gaussian"},
                 {"inference_mode", true}});
  return config;
}

namespace {

// Returns the number of the labels in labels.json or, without one, of rows of the head for scores;
// 1 if the folder has none.
int64_t count_scores(const fs::path& folder, const nlohmann::json& labels) {
  const nlohmann::json named =
      labels.is_object() ? labels.value("id2label", nlohmann::json()) : labels;
  if (named.is_object() && !named.empty()) return std::ssize(named);
  if (!fs::exists(folder / kWeightsFile)) return 1;
  const io::SafetensorsReader file(folder / kWeightsFile);
  for (const io::TensorEntry& entry : file.entries()) {
    for (const char* head :
         {".score.weight", ".classifier.weight", ".classifier.out_proj.weight"}) {
      if (entry.name.ends_with(head) && entry.shape.size() == 2) return entry.shape[0];
    }
  }
  return 1;
}

}  // namespace

std::optional<AdaptedModel> adapted_model(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / kConfigFile, ignored)) return std::nullopt;
  const PeftConfigReader config(folder / kConfigFile);
  nlohmann::json labels;
  if (fs::exists(folder / kLabelsFile, ignored)) labels = io::read_json(folder / kLabelsFile);
  return AdaptedModel{
      .folder = config.text("base_model_name_or_path"),
      .scores = config.text("task_type") == "SEQ_CLS" ? count_scores(folder, labels) : 0,
      .labels = std::move(labels),
      .has_prefix = config.text("peft_type") == kPrefixKind};
}

PeftFolder read_peft_folder(const fs::path& folder) {
  for (const char* file : {kConfigFile, kWeightsFile}) {
    std::error_code ignored;
    if (fs::exists(folder / file, ignored)) continue;
    throw ConfigError(
        fmt::format("{}: contains no adapter: it has no {}, which peft's save_pretrained writes",
                    folder.string(), file));
  }
  const PeftConfigReader config(folder / kConfigFile);
  const std::string kind = config.text("peft_type");
  if (kind == kPrefixKind) {
    return {.settings = {}, .modules = {}, .prefix = read_prefix_config(config)};
  }
  if (!kind.empty() && kind != "LORA") {
    config.refuse("peft_type", fmt::format("only \"LORA\" and \"{}\" are supported", kPrefixKind));
  }
  PeftFolder read{.settings = read_lora_config(config), .modules = {}};
  std::set<std::string> modules;
  const io::SafetensorsReader file(folder / kWeightsFile);
  for (const io::TensorEntry& entry : file.entries()) {
    if (copied_module(entry.name)) continue;
    if (const auto module = adapted_module(entry.name)) {
      modules.insert(*module);
    } else if (!is_whole_weight(entry)) {
      throw ConfigError(
          fmt::format("{}: unexpected tensor \"{}\": an adapter has \"....lora_A.weight\", "
                      "\"....lora_B.weight\" and \"....lora_magnitude_vector\" for linear layers, "
                      "\"....lora_embedding_A\" and \"....lora_embedding_B\" for embeddings, and "
                      "the modules in modules_to_save",
                      file.path().string(), entry.name));
    }
  }
  modules = with_parameters_of_experts(modules, config.strings("target_parameters"));
  const bool magnitudes = std::ranges::any_of(file.entries(), [](const io::TensorEntry& entry) {
    return entry.name.ends_with("lora_magnitude_vector");
  });
  if (magnitudes != read.settings.dora) {
    throw ConfigError(fmt::format("{}: use_dora = {}, but {} has {} \"lora_magnitude_vector\"",
                                  (folder / kConfigFile).string(), read.settings.dora, kWeightsFile,
                                  magnitudes ? "tensors named" : "no tensor named"));
  }
  read.modules.assign(modules.begin(), modules.end());
  return read;
}

std::vector<Product> adapted_products(const fs::path& folder, const PeftFolder& read,
                                      const std::vector<Product>& products) {
  std::set<std::string> missing(read.modules.begin(), read.modules.end());
  std::vector<Product> adapted;
  for (const Product& product : products) {
    if (std::ranges::find(read.modules, product.module) == read.modules.end()) continue;
    adapted.push_back(product);
    missing.erase(product.module);
  }
  if (missing.empty()) return adapted;
  throw ConfigError(
      fmt::format("{}: has an adapter for {}, which is not a layer of the model that can have one; "
                  "such layers have names like {}",
                  folder.string(), *missing.begin(), products.front().module));
}

}  // namespace colossal::adapters
