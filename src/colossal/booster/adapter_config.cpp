#include "colossal/booster/adapter_config.h"

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

// Of entries "MODULES=NUMBER".
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
          "{} = \"{}\": an entry is MODULES=NUMBER, the number above 0{}, as \"q_proj=8\"", key,
          entry, std::is_integral_v<Number> ? " and whole" : ""));
    }
    pattern.emplace_back(entry.substr(0, sign), number);
  }
  return pattern;
}

// An entry that names nothing would be left out without a word.
template <typename Number>
void check_names_adapted(const char* key,
                         const std::vector<std::pair<std::string, Number>>& pattern,
                         const std::vector<adapters::Product>& adapted) {
  for (const auto& [modules, number] : pattern) adapters::require_adapted(key, modules, adapted);
}

// Where a run goes on with an adapter, this says what it is.
models::ModelAdapter resumed_adapter(const AdapterConfig& config,
                                     const models::ModelSpecification& model,
                                     const std::set<std::string>& given_keys) {
  models::ModelAdapter adapter = *models::with_adapter(model, config.resume_from).adapter;
  const auto require = [&](const std::string& key, auto wanted, auto found) {
    if (!given_keys.contains(key) || wanted == found) return;
    throw ConfigError(
        fmt::format("{} = {}: the adapter in adapter.resume_from = \"{}\" has {}; leave {} out",
                    key, wanted, config.resume_from, found, key));
  };
  require("adapter.rank", config.rank, adapter.settings.rank);
  require("adapter.alpha", config.alpha, adapter.settings.alpha);
  require("adapter.rslora", config.rslora, adapter.settings.rslora);
  require("adapter.dora", config.dora, adapter.settings.dora);
  if (config.initial != "gaussian") {
    throw ConfigError(fmt::format(
        "adapter.initial = \"{}\" with adapter.resume_from: the adapter begins with the folder's "
        "numbers; leave adapter.initial out",
        config.initial));
  }
  for (const char* key :
       {"adapter.rank_pattern", "adapter.alpha_pattern", "adapter.modules_to_save"}) {
    if (!given_keys.contains(key)) continue;
    throw ConfigError(fmt::format(
        "{} with adapter.resume_from: the folder says what each product has; leave {} out", key,
        key));
  }
  if (given_keys.contains("adapter.targets")) {
    throw ConfigError(
        "adapter.targets with adapter.resume_from: the folder says which products have an adapter; "
        "leave adapter.targets out");
  }
  adapter.settings.dropout = config.dropout;
  adapter.settings.base = packed_type(config.base);
  return adapter;
}

// What a folder lacks must be trained, or it would keep its random initial values.
void require_trained(const models::ModelSpecification& model, const models::ModelAdapter& adapter) {
  std::vector<std::string> random;
  for (const std::string& parameter : model.without_weights) {
    if (std::ranges::count(adapter.trained, parameter) > 0) continue;
    random.push_back(adapters::module_of(models::slice_in_model(model, parameter).name));
  }
  if (random.empty()) return;
  throw ConfigError(fmt::format(
      "adapter.kind = \"lora\": {} has no {}, which would keep its random initial values; train it "
      "too (adapter.modules_to_save), or begin with a folder that has it",
      model.weights.string(), fmt::join(random, ", ")));
}

// Products of one input are made together, all of packed weights or all of numbers.
void refuse_trained_beside_packed(const models::ModelSpecification& model,
                                  const models::ModelAdapter& adapter, const std::string& base) {
  if (!adapter.settings.base) return;
  for (const adapters::Product& product : models::list_products(model)) {
    if (std::ranges::count(adapter.trained, product.name + ".weight") == 0) continue;
    throw ConfigError(fmt::format(
        "adapter.modules_to_save with adapter.base = \"{}\": {} is a product of the blocks, whose "
        "weights are frozen in few bits; give it an adapter (adapter.targets), or leave "
        "adapter.base out",
        base, product.module));
  }
}

models::ModelAdapter new_adapter(const AdapterConfig& config,
                                 const models::ModelSpecification& model) {
  if (config.dora && config.initial == "pissa") {
    throw ConfigError(
        "adapter.dora with adapter.initial = \"pissa\": magnitudes are those of the whole weight, "
        "and pissa leaves a part of it; leave one of them out");
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
                       read_pattern<double>("adapter.alpha_pattern", config.alpha_pattern),
                   .base = packed_type(config.base)},
      .products = adapters::choose_products(models::list_products(model), config.targets),
      .weights = {}};
  adapter.settings.modules_to_save = config.modules_to_save;
  adapter.trained = models::list_trained(model, config.modules_to_save, adapter.products,
                                         "adapter.modules_to_save");
  check_names_adapted("adapter.rank_pattern", adapter.settings.rank_pattern, adapter.products);
  check_names_adapted("adapter.alpha_pattern", adapter.settings.alpha_pattern, adapter.products);
  return adapter;
}

}  // namespace

std::optional<models::ModelAdapter> resolve_adapter(const AdapterConfig& config,
                                                    const models::ModelSpecification& model,
                                                    const std::set<std::string>& given_keys) {
  if (config.kind == "none") return std::nullopt;
  if (model.weights.empty()) {
    throw ConfigError(
        "adapter.kind = \"lora\": there are no weights to adapt: model.path must be a folder with "
        "weights");
  }
  models::ModelAdapter adapter = config.resume_from.empty()
                                     ? new_adapter(config, model)
                                     : resumed_adapter(config, model, given_keys);
  require_trained(model, adapter);
  refuse_trained_beside_packed(model, adapter, config.base);
  return adapter;
}

}  // namespace colossal
