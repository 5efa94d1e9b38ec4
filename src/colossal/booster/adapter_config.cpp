#include "colossal/booster/adapter_config.h"

#include "colossal/base/error.h"

namespace colossal {
namespace {

std::optional<ops::PackedType> packed_type(const std::string& base) {
  if (base == "int8") return ops::PackedType::int8;
  if (base == "nf4") return ops::PackedType::nf4;
  return std::nullopt;
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
  if (given_keys.contains("adapter.targets")) {
    throw ConfigError(
        "adapter.targets with adapter.resume_from: the folder says which products have an adapter; "
        "leave adapter.targets out");
  }
  adapter.settings.dropout = config.dropout;
  adapter.settings.base = packed_type(config.base);
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
  if (!model.without_weights.empty()) {
    throw ConfigError(fmt::format(
        "adapter.kind = \"lora\": {} has no {}, which would keep its random initial values; train "
        "all of the model (adapter.kind = \"none\"), or begin with one that has it",
        model.weights.string(), fmt::join(model.without_weights, ", ")));
  }
  if (!config.resume_from.empty()) return resumed_adapter(config, model, given_keys);
  return models::ModelAdapter{
      .settings = {.rank = config.rank,
                   .alpha = config.alpha,
                   .dropout = config.dropout,
                   .rslora = config.rslora,
                   .base = packed_type(config.base)},
      .products = adapters::choose_products(models::list_products(model), config.targets),
      .weights = {}};
}

}  // namespace colossal
