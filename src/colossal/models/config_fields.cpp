#include "colossal/models/config_fields.h"

#include "colossal/base/error.h"

namespace colossal::models {
namespace {

[[noreturn]] void refuse(const std::string& name, const nlohmann::json& found,
                         const std::string& wanted) {
  throw ConfigError(fmt::format("config.json: {} = {}: {}", name, found.dump(), wanted));
}

}  // namespace

const nlohmann::json* ConfigFields::find(const std::string& name) const {
  const auto it = json_.find(name);
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

int64_t ConfigFields::required_size(const std::string& name, int64_t maximum) const {
  if (!find(name)) {
    throw ConfigError(fmt::format(
        "config.json: field \"{}\" is missing; it is a whole number from 1 to {}", name, maximum));
  }
  return optional_size(name, 0, maximum);
}

int64_t ConfigFields::optional_size(const std::string& name, int64_t fallback,
                                    int64_t maximum) const {
  const nlohmann::json* value = find(name);
  if (!value) return fallback;
  const std::string wanted = fmt::format("must be a whole number from 1 to {}", maximum);
  if (!value->is_number_integer()) refuse(name, *value, wanted);
  if (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(maximum)) {
    refuse(name, *value, wanted);
  }
  const int64_t size = value->get<int64_t>();
  if (size < 1 || size > maximum) refuse(name, *value, wanted);
  return size;
}

double ConfigFields::number(const std::string& name, double fallback, double minimum,
                            double maximum) const {
  const nlohmann::json* value = find(name);
  if (!value) return fallback;
  const std::string wanted = fmt::format("must be a number from {} to {}", minimum, maximum);
  if (!value->is_number()) refuse(name, *value, wanted);
  const double number = value->get<double>();
  if (!(number >= minimum && number <= maximum)) refuse(name, *value, wanted);
  return number;
}

bool ConfigFields::flag(const std::string& name, bool fallback) const {
  const nlohmann::json* value = find(name);
  if (!value) return fallback;
  if (!value->is_boolean()) refuse(name, *value, "must be true or false");
  return value->get<bool>();
}

std::string ConfigFields::text(const std::string& name, const std::string& fallback) const {
  const nlohmann::json* value = find(name);
  if (!value) return fallback;
  if (!value->is_string()) refuse(name, *value, "must be a text");
  return value->get<std::string>();
}

void ConfigFields::require(const std::string& name, const nlohmann::json& supported) const {
  const nlohmann::json* value = find(name);
  if (value && *value != supported) {
    refuse(name, *value, fmt::format("only {} is computed here", supported.dump()));
  }
}

}  // namespace colossal::models
