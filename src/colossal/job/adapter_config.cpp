#include "colossal/job/adapter_config.h"

#include <algorithm>
#include <charconv>

#include "colossal/adapters/peft_names.h"
#include "colossal/base/error.h"

namespace colossal {
namespace {

std::optional<ops::PackedType> packed_type(const std::string& base) {
  if (base == "int8") return ops::PackedType::int8;
  if (base == "nf4") return ops::PackedType::nf4;
  return std::nullopt;
}

// Reads entries "MODULES=NUMBER".
template <typename Number>
std::vector<std::pair<std::string, Number>> read_pattern(const char* key,
                                                         const std::vector<std::string>& entries) {
  std::vector<std::pair<std::string, Number>> pattern;
  for (const std::string& entry : entries) {
    const size_t sign = entry.rfind('=');
    const std::string text = sign == std::string::npos ? "" : entry.substr(sign + 1);
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (sign == 0 || error != std::errc() || end != text.data() + text.size() || !(number > 0)) {
      throw ConfigError(fmt::format(
          "{} = \"{}\": must be MODULES=NUMBER with a {}number above 0, such as \"q_proj=8\"", key,
          entry, std::is_integral_v<Number> ? "whole " : ""));
    }
    pattern.emplace_back(entry.substr(0, sign), number);
  }
  return pattern;
}

// Throws ConfigError if an entry names no adapted module, because the entry would have no effect.
template <typename Number>
void check_names_adapted(const char* key,
                         const std::vector<std::pair<std::string, Number>>& pattern,
                         const std::vector<adapters::Product>& adapted) {
  for (const auto& [modules, number] : pattern) adapters::require_adapted(key, modules, adapted);
}

// peft drops no inputs of experts, and refuses a folder that says so.
double dropout_of(const AdapterConfig& config, const std::set<std::string>& given_keys,
                  const std::vector<adapters::Product>& adapted) {
  const bool has_experts = std::ranges::any_of(adapted, &adapters::Product::is_of_experts);
  if (!has_experts || config.dropout == 0) return config.dropout;
  if (!given_keys.contains("adapter.dropout")) return 0;
  throw ConfigError(
      fmt::format("adapter.dropout = {} with adapters of experts: peft has no dropout for them; "
                  "use adapter.dropout = 0, or leave adapter.target_parameters out",
                  config.dropout));
}

// Returns the adapter in adapter.resume_from. Throws ConfigError if keys that are given differ from
// it.
models::ModelAdapter resumed_adapter(const AdapterConfig& config,
                                     const models::ModelSpecification& model,
                                     const std::set<std::string>& given_keys) {
  models::ModelAdapter adapter = *models::with_adapter(model, config.resume_from).adapter;
  const char* const kind = adapter.prefix ? "prefix" : "lora";
  if (config.kind != kind) {
    throw ConfigError(
        fmt::format("adapter.kind = \"{}\": the adapter in adapter.resume_from = \"{}\" is of "
                    "another kind; use adapter.kind = \"{}\"",
                    config.kind, config.resume_from, kind));
  }
  const auto require = [&](const std::string& key, auto wanted, auto found) {
    if (!given_keys.contains(key) || wanted == found) return;
    throw ConfigError(
        fmt::format("{} = {}: the adapter in adapter.resume_from = \"{}\" has {}; leave {} out",
                    key, wanted, config.resume_from, found, key));
  };
  if (adapter.prefix) {
    require("adapter.virtual_tokens", config.virtual_tokens, adapter.prefix->virtual_tokens);
  }
  require("adapter.rank", config.rank, adapter.settings.rank);
  require("adapter.alpha", config.alpha, adapter.settings.alpha);
  require("adapter.rslora", config.rslora, adapter.settings.rslora);
  require("adapter.dora", config.dora, adapter.settings.dora);
  if (config.initial != "gaussian") {
    throw ConfigError(
        fmt::format("adapter.initial = \"{}\" with adapter.resume_from: the adapter starts from "
                    "the values in the folder; leave adapter.initial out",
                    config.initial));
  }
  for (const char* key :
       {"adapter.rank_pattern", "adapter.alpha_pattern", "adapter.modules_to_save"}) {
    if (!given_keys.contains(key)) continue;
    throw ConfigError(
        fmt::format("{} with adapter.resume_from: the folder determines the rank and alpha of each "
                    "linear layer; leave {} out",
                    key, key));
  }
  for (const char* key : {"adapter.targets", "adapter.target_parameters"}) {
    if (!given_keys.contains(key)) continue;
    throw ConfigError(
        fmt::format("{} with adapter.resume_from: the folder determines which linear layers have "
                    "an adapter; leave {} out",
                    key, key));
  }
  adapter.settings.dropout = dropout_of(config, given_keys, adapter.products);
  return adapter;
}

// Throws ConfigError if weights that the folder lacks would stay frozen at random initial values.
void require_trained(const models::ModelSpecification& model, const models::ModelAdapter& adapter) {
  std::vector<std::string> random;
  for (const std::string& parameter : model.newly_initialized) {
    if (std::ranges::count(adapter.trained, parameter) > 0) continue;
    const std::string tensor = models::slice_in_model(model, parameter).name;
    const std::string module = tensor.substr(0, tensor.rfind('.'));
    if (std::ranges::count(random, module) == 0) random.push_back(module);
  }
  if (random.empty()) return;
  throw ConfigError(fmt::format(
      "adapter.kind = \"{}\": {} has no {}, which would keep its random initial values; {}use a "
      "folder that has it",
      adapter.prefix ? "prefix" : "lora", model.weights.string(), fmt::join(random, ", "),
      adapter.prefix ? "" : "also train it (adapter.modules_to_save), or "));
}

// Linear layers with one input are fused, and a fused layer is either all packed or all not packed.
void refuse_trained_beside_packed(const models::ModelSpecification& model,
                                  const models::ModelAdapter& adapter, const std::string& base) {
  if (!adapter.base) return;
  for (const adapters::Product& product : models::list_products(model)) {
    if (!product.is_of_blocks()) continue;
    if (std::ranges::count(adapter.trained, product.name + ".weight") == 0) continue;
    throw ConfigError(
        fmt::format("adapter.modules_to_save with adapter.base = \"{}\": {} is a linear layer of "
                    "the blocks, whose frozen weights are quantized and cannot be trained; give it "
                    "an adapter (adapter.targets), or leave adapter.base out",
                    base, product.module));
  }
}

// Refuses DoRA and PiSSA for vocabulary tables and experts: magnitudes and singular values would be
// those of every row of the vocabulary, or of every expert.
void refuse_special_products(const AdapterConfig& config,
                             const std::vector<adapters::Product>& adapted) {
  const auto found = std::ranges::find_if(adapted, [](const adapters::Product& product) {
    return !product.is_of_blocks() || product.is_of_experts();
  });
  if (found == adapted.end() || (!config.dora && config.initial != "pissa")) return;
  throw ConfigError(fmt::format(
      "adapter.{} with an adapter of {}: embeddings, the output head and experts support only "
      "plain LoRA; leave {} out of adapter.{}, or leave adapter.{} out",
      config.dora ? "dora" : "initial = \"pissa\"", found->module, found->module,
      found->is_of_experts() ? "target_parameters" : "targets", config.dora ? "dora" : "initial"));
}

models::ModelAdapter new_adapter(const AdapterConfig& config,
                                 const models::ModelSpecification& model,
                                 const std::set<std::string>& given_keys) {
  if (config.dora && config.initial == "pissa") {
    throw ConfigError(
        "adapter.dora with adapter.initial = \"pissa\": DoRA needs the magnitudes of the whole "
        "weight, and PiSSA removes a part of the weight; leave one of them out");
  }
  models::ModelAdapter adapter{
      .settings = {.rank = config.rank,
                   .alpha = config.alpha,
                   .dropout = config.dropout,
                   .rslora = config.rslora,
                   .pissa = config.initial == "pissa",
                   .dora = config.dora,
                   .rank_pattern =
                       read_pattern<int64_t>("adapter.rank_pattern", config.rank_pattern),
                   .alpha_pattern =
                       read_pattern<double>("adapter.alpha_pattern", config.alpha_pattern)},
      .products = adapters::choose_products(models::list_products(model),
                                            {config.targets, config.target_parameters}),
      .weights = {}};
  adapter.settings.dropout = dropout_of(config, given_keys, adapter.products);
  adapter.settings.modules_to_save = config.modules_to_save;
  adapter.trained = models::list_trained(model, config.modules_to_save, adapter.products,
                                         "adapter.modules_to_save");
  refuse_special_products(config, adapter.products);
  check_names_adapted("adapter.rank_pattern", adapter.settings.rank_pattern, adapter.products);
  check_names_adapted("adapter.alpha_pattern", adapter.settings.alpha_pattern, adapter.products);
  return adapter;
}

// Throws ConfigError for keys that have no meaning for this kind of adapter.
void refuse_keys_of_other_kind(const AdapterConfig& config,
                               const std::set<std::string>& given_keys) {
  const bool prefix = config.kind == "prefix";
  const std::vector<const char*> others =
      prefix ? std::vector{"rank",   "alpha", "dropout",      "targets",       "target_parameters",
                           "rslora", "dora",  "rank_pattern", "alpha_pattern", "modules_to_save"}
             : std::vector{"virtual_tokens"};
  for (const char* other : others) {
    const std::string key = std::string("adapter.") + other;
    if (!given_keys.contains(key)) continue;
    throw ConfigError(fmt::format(
        "{} with adapter.kind = \"{}\": {}; leave {} out", key, config.kind,
        prefix ? "it applies to low-rank adapters only" : "only a prefix has virtual tokens", key));
  }
  const char* const initial = prefix ? "pissa" : "zeros";
  if (config.initial != initial) return;
  throw ConfigError(fmt::format(
      "adapter.initial = \"{}\" with adapter.kind = \"{}\": {}; give \"gaussian\" or \"{}\"",
      initial, config.kind,
      prefix ? "a prefix has no weight with singular values to start from"
             : "if A and B are both zero, neither has a gradient",
      prefix ? "zeros" : "pissa"));
}

// An [adapter] section without a kind would train all weights: whoever gives a rank wants an
// adapter. kind = "none" beside other keys switches an adapter off, which is logged
// (setting_effects.h).
void refuse_keys_without_kind(const AdapterConfig& config,
                              const std::set<std::string>& given_keys) {
  if (config.kind != "none" || given_keys.contains("adapter.kind")) return;
  const auto found = std::ranges::find_if(
      given_keys, [](const std::string& key) { return key.starts_with("adapter."); });
  if (found == given_keys.end()) return;
  throw ConfigError(fmt::format(
      "{} without adapter.kind, whose default is \"none\": all weights would be trained; "
      "add adapter.kind = \"{}\" (or \"none\" to train all weights)",
      *found, *found == "adapter.virtual_tokens" ? "prefix" : "lora"));
}

models::ModelAdapter new_prefix(const AdapterConfig& config) {
  return {.settings = {},
          .products = {},
          .prefix = adapters::PrefixSettings{.virtual_tokens = config.virtual_tokens,
                                             .begins_with_zeros = config.initial == "zeros"},
          .weights = {}};
}

}  // namespace

std::optional<models::ModelAdapter> resolve_adapter(const AdapterConfig& config,
                                                    const models::ModelSpecification& model,
                                                    const std::set<std::string>& given_keys) {
  refuse_keys_without_kind(config, given_keys);
  if (config.kind == "none") return std::nullopt;
  if (model.weights.empty()) {
    throw ConfigError(fmt::format(
        "adapter.kind = \"{}\" needs weights to adapt: model.path must be a folder with weights",
        config.kind));
  }
  refuse_keys_of_other_kind(config, given_keys);
  models::ModelAdapter adapter = !config.resume_from.empty()
                                     ? resumed_adapter(config, model, given_keys)
                                 : config.kind == "prefix" ? new_prefix(config)
                                                           : new_adapter(config, model, given_keys);
  adapter.base = packed_type(config.base);
  require_trained(model, adapter);
  refuse_trained_beside_packed(model, adapter, config.base);
  return adapter;
}

}  // namespace colossal
