#include "colossal/models/families.h"

#include "colossal/base/error.h"
#include "colossal/base/nearest.h"
#include "colossal/io/json.h"
#include "colossal/models/gpt2/model.h"
#include "colossal/models/gpt2/presets.h"
#include "colossal/models/gpt2/sharding.h"
#include "colossal/models/gpt2/weights.h"

namespace colossal::models {
namespace {

constexpr const char* kFamilies = "\"gpt2\"";

nlohmann::json read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  if (!std::filesystem::exists(path)) {
    throw ConfigError(fmt::format(
        "model.path = \"{}\": no {}; a model's folder holds config.json and *.safetensors",
        folder.string(), path.string()));
  }
  nlohmann::json json = io::read_json(path);
  if (!json.is_object()) throw ConfigError(fmt::format("{}: not a JSON object", path.string()));
  return json;
}

nlohmann::json preset_config(const std::string& name) {
  if (const auto config = gpt2::preset(name)) return gpt2::to_json(*config);
  throw ConfigError(fmt::format("model.preset = \"{}\": unknown; nearest: \"{}\"; there are: {}",
                                name, nearest(name, preset_names()),
                                fmt::join(preset_names(), ", ")));
}

void apply_overrides(nlohmann::json& config, const nlohmann::json& overrides) {
  std::vector<std::string> fields;
  for (const auto& [field, value] : config.items()) fields.push_back(field);
  for (const auto& [field, value] : overrides.items()) {
    if (!config.contains(field)) {
      throw ConfigError(
          fmt::format("model.{}: no such key, and config.json has no such field; nearest: model.{}",
                      field, nearest(field, fields)));
    }
    config[field] = value;
  }
}

bool has_weights(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "model.safetensors") ||
         std::filesystem::exists(folder / "model.safetensors.index.json");
}

// The one place that knows which families there are.
ModelSpecification specify(const nlohmann::json& config, double dropout) {
  const std::string family = config.value("model_type", nlohmann::json()).is_string()
                                 ? config["model_type"].get<std::string>()
                                 : std::string();
  if (family != "gpt2") {
    throw ConfigError(fmt::format("config.json: model_type = {}: unknown family; there are: {}",
                                  config.value("model_type", nlohmann::json()).dump(), kFamilies));
  }
  gpt2::Config parsed = gpt2::parse_config(config);
  if (dropout >= 0) parsed.embd_pdrop = parsed.attn_pdrop = parsed.resid_pdrop = dropout;
  return {.config = gpt2::to_json(parsed), .facts = gpt2::facts(parsed), .weights = {}};
}

}  // namespace

double ModelFacts::flops_per_token(int64_t sequence) const {
  return 6.0 * static_cast<double>(product_weights) +
         12.0 * static_cast<double>(layers * hidden * sequence);
}

std::vector<std::string> preset_names() {
  return gpt2::preset_names();
}

ModelSpecification resolve_model(const ModelRequest& request) {
  if (request.preset.empty() == request.path.empty()) {
    throw ConfigError(fmt::format(
        "model: give either preset or path ({}); for example model.preset = \"gpt2-tiny\"",
        request.preset.empty() ? "neither is given" : "both are given"));
  }
  nlohmann::json config =
      request.path.empty() ? preset_config(request.preset) : read_config(request.path);
  // A folder's config.json may leave fields to their defaults; overrides may name any field.
  if (!request.path.empty() && !request.overrides.empty()) {
    nlohmann::json complete = specify(config, -1).config;
    complete.update(config);
    config = std::move(complete);
  }
  apply_overrides(config, request.overrides);
  ModelSpecification specification = specify(config, request.dropout);
  if (!request.path.empty() && has_weights(request.path)) specification.weights = request.path;
  return specification;
}

std::unique_ptr<LanguageModel> build_model(const ModelSpecification& specification,
                                           nn::Builder& build) {
  return std::make_unique<gpt2::Model>(build, gpt2::parse_config(specification.config));
}

parallel::Sharding sharding(const ModelSpecification& specification) {
  return gpt2::sharding(gpt2::parse_config(specification.config));
}

std::string hugging_face_name(const ModelSpecification&, const std::string& parameter) {
  return gpt2::hugging_face_name(parameter);
}

}  // namespace colossal::models
