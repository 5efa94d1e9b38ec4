#include "colossal/adapters/peft_config_reader.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/io/file.h"
#include "colossal/io/json.h"

namespace colossal::adapters {

PeftConfigReader::PeftConfigReader(std::filesystem::path file) : file_(std::move(file)) {
  if (!io::read_json(file_).is_object()) {
    throw ConfigError(fmt::format("{}: not a JSON object", file_.string()));
  }
  json_ = Json::parse(io::read_file(file_));
}

std::string PeftConfigReader::text(const char* field) const {
  const Json found = get(field);
  if (found.is_null()) return "";
  if (!found.is_string()) refuse(field, "must be a string");
  return found.get<std::string>();
}

void PeftConfigReader::require(const char* field, const char* value) const {
  const Json found = get(field);
  if (!found.is_null() && found != value)
    refuse(field, fmt::format("only \"{}\" is supported", value));
}

void PeftConfigReader::require_nothing(const char* field) const {
  const Json found = get(field);
  if (!found.is_null() && found != false && !(found.is_structured() && found.empty())) {
    refuse(field, "leave it out");
  }
}

std::vector<std::string> PeftConfigReader::strings(const char* field) const {
  const Json found = get(field);
  if (found.is_null()) return {};
  const bool fits = found.is_array() &&
                    std::ranges::all_of(found, [](const Json& entry) { return entry.is_string(); });
  if (!fits) refuse(field, "must be a list of names");
  return found.get<std::vector<std::string>>();
}

void PeftConfigReader::refuse(const char* field, const std::string& why) const {
  throw ConfigError(
      fmt::format("{}: {} = {}: not supported; {}", file_.string(), field, get(field).dump(), why));
}

}  // namespace colossal::adapters
