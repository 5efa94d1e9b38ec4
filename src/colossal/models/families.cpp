#include "colossal/models/families.h"

#include "colossal/base/error.h"
#include "colossal/base/nearest.h"
#include "colossal/io/json.h"
#include "colossal/io/tensor_directory.h"
#include "colossal/models/config_fields.h"
#include "colossal/models/gpt2/model.h"
#include "colossal/models/gpt2/presets.h"
#include "colossal/models/gpt2/sharding.h"
#include "colossal/models/gpt2/weights.h"
#include "colossal/models/llama/model.h"
#include "colossal/models/llama/presets.h"
#include "colossal/models/llama/sharding.h"
#include "colossal/models/llama/weights.h"

namespace colossal::models {
namespace {

struct Family {
  std::vector<std::string> model_types;  // in config.json
  // A config.json whose every setting is said in one way, which a run may override.
  nlohmann::json (*simplify)(nlohmann::json config);
  // dropout >= 0: all of the model's probabilities.
  ModelSpecification (*specify)(const nlohmann::json& config, double dropout);
  std::unique_ptr<LanguageModel> (*build)(const nlohmann::json& config, nn::Builder& build);
  parallel::Sharding (*sharding)(const nlohmann::json& config);
  const LayerNames& (*layer_names)();
  std::vector<std::string> (*preset_names)();
  nlohmann::json (*preset)(const std::string& name);  // null: none of its own
};

template <typename Model, typename Config, Config (*parse)(const nlohmann::json&),
          parallel::Sharding (*cut)(const Config&)>
struct FamilyOf {
  static std::unique_ptr<LanguageModel> build(const nlohmann::json& config, nn::Builder& build) {
    return std::make_unique<Model>(build, parse(config));
  }
  static parallel::Sharding sharding(const nlohmann::json& config) { return cut(parse(config)); }
};

// The one place that knows which families there are.
const std::vector<Family>& families() {
  using Gpt2 = FamilyOf<gpt2::Model, gpt2::Config, gpt2::parse_config, gpt2::sharding>;
  using Llama = FamilyOf<llama::Model, llama::Config, llama::parse_config, llama::sharding>;
  static const std::vector<Family> kFamilies{
      {{"gpt2"},
       [](nlohmann::json json) { return json; },
       [](const nlohmann::json& json, double dropout) {
         gpt2::Config config = gpt2::parse_config(json);
         if (dropout >= 0) config.embd_pdrop = config.attn_pdrop = config.resid_pdrop = dropout;
         return ModelSpecification{gpt2::to_json(config), gpt2::facts(config), {}};
       },
       Gpt2::build,
       Gpt2::sharding,
       gpt2::layer_names,
       gpt2::preset_names,
       [](const std::string& name) {
         const auto config = gpt2::preset(name);
         return config ? gpt2::to_json(*config) : nlohmann::json();
       }},
      {{"llama", "qwen2"},
       llama::with_older_rotary_fields,
       [](const nlohmann::json& json, double dropout) {
         llama::Config config = llama::parse_config(json);
         if (dropout >= 0) config.attention_dropout = dropout;
         return ModelSpecification{llama::to_json(config), llama::facts(config), {}};
       },
       Llama::build,
       Llama::sharding,
       llama::layer_names,
       llama::preset_names,
       [](const std::string& name) {
         const auto config = llama::preset(name);
         if (!config) return nlohmann::json();
         nlohmann::json json = llama::to_json(*config);
         json.erase(
             "head_dim");  // hidden_size / num_attention_heads, also when a run changes those
         return json;
       }},
  };
  return kFamilies;
}

const Family& family_of(const nlohmann::json& config) {
  const nlohmann::json type = config.value("model_type", nlohmann::json());
  std::vector<std::string> known;
  for (const Family& family : families()) {
    for (const std::string& name : family.model_types) {
      if (type == name) return family;
      known.push_back('"' + name + '"');
    }
  }
  throw ConfigError(fmt::format("config.json: model_type = {}: unknown family; there are: {}",
                                type.dump(), fmt::join(known, ", ")));
}

nlohmann::json read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  if (!std::filesystem::exists(path)) {
    throw ConfigError(
        fmt::format("no {}: a model's folder holds config.json and *.safetensors", path.string()));
  }
  nlohmann::json json = io::read_json(path);
  if (!json.is_object()) throw ConfigError(fmt::format("{}: not a JSON object", path.string()));
  return json;
}

nlohmann::json preset_config(const std::string& name) {
  for (const Family& family : families()) {
    if (nlohmann::json config = family.preset(name); !config.is_null()) return config;
  }
  throw ConfigError(fmt::format("model.preset = \"{}\": unknown; nearest: \"{}\"; there are: {}",
                                name, nearest(name, preset_names()),
                                fmt::join(preset_names(), ", ")));
}

ModelSpecification specify(const nlohmann::json& config, double dropout) {
  return family_of(config).specify(config, dropout);
}

// Overrides may name any field that the family knows or the config has. Fields that neither gives
// follow from the others as ever: a head's size from the hidden size.
void apply_overrides(nlohmann::json& config, const ModelRequest& request) {
  nlohmann::json known = specify(config, -1).config;
  known.update(config);
  std::vector<std::string> fields;
  for (const auto& [field, value] : known.items()) fields.push_back(field);
  for (const auto& [field, value] : request.overrides.items()) {
    if (!known.contains(field)) {
      const auto place = request.override_places.find(field);
      throw ConfigError(
          fmt::format("{}: no such key, and config.json has no such field; nearest: model.{}",
                      place == request.override_places.end() ? "model." + field : place->second,
                      nearest(field, fields)));
    }
    config[field] = value;
  }
}

}  // namespace

double ModelFacts::flops_per_token(int64_t sequence) const {
  return 6.0 * static_cast<double>(product_weights) +
         12.0 * static_cast<double>(layers * heads * head_size * sequence);
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Family& family : families()) {
    for (std::string& name : family.preset_names()) names.push_back(std::move(name));
  }
  return names;
}

namespace {

ModelSpecification specify(const ModelRequest& request) {
  nlohmann::json config =
      request.path.empty() ? preset_config(request.preset) : read_config(request.path);
  config = family_of(config).simplify(std::move(config));
  if (!request.overrides.empty()) apply_overrides(config, request);
  return specify(config, request.dropout);
}

// Where a field of this name was overridden, also one within another: "rope_scaling.factor".
const std::string* place_of(const std::string& field, const ModelRequest& request) {
  for (const auto& [name, place] : request.override_places) {
    if (name == field || name.ends_with("." + field)) return &place;
  }
  return nullptr;
}

}  // namespace

ModelSpecification resolve_model(const ModelRequest& request) {
  if (request.preset.empty() == request.path.empty()) {
    throw ConfigError(fmt::format(
        "model: give either preset or path ({}); for example model.preset = \"gpt2-tiny\"",
        request.preset.empty() ? "neither is given" : "both are given"));
  }
  ModelSpecification specification;
  try {
    specification = specify(request);
  } catch (const FieldError& error) {
    for (const std::string& field : error.fields()) {
      if (const std::string* place = place_of(field, request)) {
        throw ConfigError(fmt::format("{}: {}", *place, error.why()));
      }
    }
    throw;
  }
  if (!request.path.empty() && io::holds_weights(request.path)) {
    specification.weights = request.path;
  }
  return specification;
}

std::unique_ptr<LanguageModel> build_model(const ModelSpecification& specification,
                                           nn::Builder& build) {
  return family_of(specification.config).build(specification.config, build);
}

parallel::Sharding sharding(const ModelSpecification& specification) {
  return family_of(specification.config).sharding(specification.config);
}

std::string hugging_face_name(const ModelSpecification& specification,
                              const std::string& parameter) {
  return hugging_face_name(family_of(specification.config).layer_names(), parameter);
}

std::optional<std::string> spare_tensor(const ModelSpecification& specification,
                                        const std::string& name) {
  for (std::string_view end : family_of(specification.config).layer_names().computed) {
    if (name.ends_with(end)) return "";
  }
  const bool tied = specification.config.value("tie_word_embeddings", false);
  if (tied && name == hugging_face_name(specification, "head.weight")) {
    return hugging_face_name(specification, "token_embedding.weight");
  }
  return std::nullopt;
}

}  // namespace colossal::models
