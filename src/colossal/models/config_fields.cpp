#include "colossal/models/config_fields.h"

#include <utility>

namespace colossal::models {
namespace {

[[noreturn]] void refuse(const std::string& name, const nlohmann::json& found,
                         const std::string& wanted) {
  throw FieldError({name}, fmt::format("{} = {}", name, found.dump()), wanted);
}

}  // namespace

FieldError::FieldError(std::vector<std::string> fields, const std::string& given,
                       const std::string& why)
    : ConfigError(fmt::format("config.json: {}{}{}", given, given.empty() ? "" : ": ", why)),
      fields_(std::move(fields)),
      why_(why) {}

const nlohmann::json* ConfigFields::find(const std::string& name) const {
  const auto it = json_.find(name);
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

int64_t ConfigFields::required_size(const std::string& name, int64_t maximum) const {
  if (!find(name)) {
    throw FieldError(
        {name}, "",
        fmt::format("field \"{}\" is missing; it is a whole number from 1 to {}", name, maximum));
  }
  return optional_size(name, 0, maximum);
}

int64_t ConfigFields::optional_size(const std::string& name, int64_t fallback,
                                    int64_t maximum) const {
  const nlohmann::json* value = find(name);
  if (!value) return fallback;
  const std::string wanted = fmt::format("expected a whole number from 1 to {}", maximum);
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
  const std::string wanted = fmt::format("expected a number from {} to {}", minimum, maximum);
  if (!value->is_number()) refuse(name, *value, wanted);
  const double number = value->get<double>();
  if (!(number >= minimum && number <= maximum)) refuse(name, *value, wanted);
  return number;
}

bool ConfigFields::flag(const std::string& name, bool fallback) const {
  const nlohmann::json* value = find(name);
  if (!value) return fallback;
  if (!value->is_boolean()) refuse(name, *value, "expected true or false");
  return value->get<bool>();
}

std::string ConfigFields::text(const std::string& name, const std::string& fallback) const {
  const nlohmann::json* value = find(name);
  if (!value) return fallback;
  if (!value->is_string()) refuse(name, *value, "expected a text");
  return value->get<std::string>();
}

void ConfigFields::require(const std::string& name, const nlohmann::json& supported) const {
  const nlohmann::json* value = find(name);
  if (value && *value != supported) {
    refuse(name, *value,
           supported.is_null()
               ? "expected none: this is not supported"
               : fmt::format("expected {}: nothing else is supported", supported.dump()));
  }
}

}  // namespace colossal::models
