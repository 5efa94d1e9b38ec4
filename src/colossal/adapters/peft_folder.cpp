#include "colossal/adapters/peft_folder.h"

#include <algorithm>
#include <map>
#include <set>

#include "colossal/adapters/peft_names.h"
#include "colossal/base/error.h"
#include "colossal/io/file.h"
#include "colossal/io/json.h"
#include "colossal/io/safetensors.h"

namespace colossal::adapters {
namespace {

namespace fs = std::filesystem;

// What peft takes for the modules: the ends of their names where these name no others, as
// "q_proj", else whole names.
std::vector<std::string> target_modules(const std::vector<Product>& products,
                                        const std::vector<Product>& adapted) {
  const auto end_of = [](const std::string& module) {
    return module.substr(module.rfind('.') + 1);
  };
  std::set<std::string> modules, ends_of_others, targets;
  for (const Product& product : adapted) modules.insert(product.module);
  for (const Product& product : products) {
    if (!modules.contains(product.module)) ends_of_others.insert(end_of(product.module));
  }
  for (const std::string& module : modules) {
    const std::string end = end_of(module);
    targets.insert(ends_of_others.contains(end) ? module : end);
  }
  return {targets.begin(), targets.end()};
}

// Of the modules for which it is another value, by their whole names: in any order they say the
// same.
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

class ConfigReader {
 public:
  explicit ConfigReader(fs::path file) : file_(std::move(file)) {
    if (!io::read_json(file_).is_object()) {
      throw ConfigError(fmt::format("{}: not a JSON object", file_.string()));
    }
    json_ = Json::parse(io::read_file(file_));
  }

  void require(const char* field, const char* value) const {
    const Json found = get(field);
    if (!found.is_null() && found != value) refuse(field, fmt::format("only \"{}\" is", value));
  }
  // Null, false, or of no entries.
  void require_nothing(const char* field) const {
    const Json found = get(field);
    if (!found.is_null() && found != false && !(found.is_structured() && found.empty())) {
      refuse(field, "it must be left out");
    }
  }
  template <typename Number>
  Number positive(const char* field, Number absent) const {
    const Json found = get(field);
    if (found.is_null()) return absent;
    const bool fits = std::is_integral_v<Number> ? found.is_number_integer() : found.is_number();
    if (!fits || !(found > 0)) refuse(field, "a number above 0 is needed");
    return found.get<Number>();
  }
  bool flag(const char* field) const { return get(field) == true; }
  // Whatever has taken a part out of the model's weights fits these no more.
  void require_whole_weights() const {
    constexpr const char* kField = "init_lora_weights";
    const Json found = get(kField);
    if (!found.is_string()) return;
    for (const char* taken : {"pissa", "olora", "corda", "loftq"}) {
      if (!found.get<std::string>().starts_with(taken)) continue;
      refuse(kField,
             "the adapter is beside what this has left of the model's weights; save it with "
             "path_initial_model_for_weight_conversion, so that it fits the model as it is");
    }
  }
  std::vector<std::string> strings(const char* field) const {
    const Json found = get(field);
    if (found.is_null()) return {};
    const bool fits = found.is_array() && std::ranges::all_of(found, [](const Json& entry) {
                        return entry.is_string();
                      });
    if (!fits) refuse(field, "a list of names is needed");
    return found.get<std::vector<std::string>>();
  }
  // An object of positive numbers, in the file's order.
  template <typename Number>
  std::vector<std::pair<std::string, Number>> pattern(const char* field) const {
    const Json found = get(field);
    if (found.is_null()) return {};
    if (!found.is_object()) refuse(field, "an object of numbers above 0 is needed");
    std::vector<std::pair<std::string, Number>> entries;
    for (const auto& [name, value] : found.items()) {
      const bool fits = std::is_integral_v<Number> ? value.is_number_integer() : value.is_number();
      if (!fits || !(value > 0)) refuse(field, "an object of numbers above 0 is needed");
      entries.emplace_back(name, value.template get<Number>());
    }
    return entries;
  }

 private:
  using Json = nlohmann::ordered_json;

  Json get(const char* field) const { return json_.value(field, Json()); }
  [[noreturn]] void refuse(const char* field, const std::string& why) const {
    throw ConfigError(
        fmt::format("{}: {} = {}: not read; {}", file_.string(), field, get(field).dump(), why));
  }

  fs::path file_;
  Json json_;
};

LoraSettings read_config(const fs::path& file) {
  const ConfigReader config(file);
  config.require("peft_type", "LORA");
  config.require("bias", "none");
  config.require_whole_weights();
  for (const char* field : {"lora_bias", "layer_replication", "trainable_token_indices",
                            "target_parameters", "use_qalora", "use_bdlora", "arrow_config"}) {
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

bool is_trained(const std::string& tensor, const LoraSettings& settings) {
  const auto module = trained_module(tensor);
  return module && std::ranges::any_of(settings.modules_to_save, [&](const std::string& name) {
           return names_module(name, *module);
         });
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
          {"target_modules", target_modules(products, adapted)}};
}

nlohmann::json peft_config(const LoraSettings& settings, const std::vector<Product>& products,
                           const std::vector<Product>& adapted, const BaseModel& base) {
  nlohmann::json config = shaping_fields(settings, products, adapted);
  config.update({{"task_type", base.scores ? "SEQ_CLS" : "CAUSAL_LM"},
                 {"base_model_name_or_path", base.folder},
                 {"lora_dropout", settings.dropout},
                 {"bias", "none"},
                 {"fan_in_fan_out", base.stored_in_out},
                 {"init_lora_weights", "gaussian"},
                 {"inference_mode", true}});
  return config;
}

PeftFolder read_peft_folder(const fs::path& folder) {
  for (const char* file : {kConfigFile, kWeightsFile}) {
    std::error_code ignored;
    if (fs::exists(folder / file, ignored)) continue;
    throw ConfigError(fmt::format("{}: no adapter: it has no {}; peft's save_pretrained writes one",
                                  folder.string(), file));
  }
  PeftFolder read{.settings = read_config(folder / kConfigFile), .modules = {}};
  std::set<std::string> modules;
  const io::SafetensorsReader file(folder / kWeightsFile);
  for (const io::TensorEntry& entry : file.entries()) {
    const auto module = adapted_module(entry.name);
    if (!module && is_trained(entry.name, read.settings)) continue;
    if (!module) {
      throw ConfigError(
          fmt::format("{}: tensor \"{}\" is not one of a product's adapter, \"....lora_A.weight\", "
                      "\"....lora_B.weight\" or \"....lora_magnitude_vector\", nor of a module in "
                      "modules_to_save",
                      file.path().string(), entry.name));
    }
    modules.insert(*module);
  }
  const bool magnitudes = std::ranges::any_of(file.entries(), [](const io::TensorEntry& entry) {
    return entry.name.ends_with("lora_magnitude_vector");
  });
  if (magnitudes != read.settings.dora) {
    throw ConfigError(fmt::format("{}: use_dora = {}, and {} has {} \"lora_magnitude_vector\"",
                                  (folder / kConfigFile).string(), read.settings.dora, kWeightsFile,
                                  magnitudes ? "tensors of name" : "no tensor of name"));
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
      fmt::format("{}: has an adapter for {}, which is no product of the model; such "
                  "are {} and its like",
                  folder.string(), *missing.begin(), products.front().module));
}

}  // namespace colossal::adapters
