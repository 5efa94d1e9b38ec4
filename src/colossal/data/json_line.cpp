#include "colossal/data/json_line.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace colossal::data {
namespace {

// Returns the names of an object's first fields, for error messages.
std::string describe_fields(const nlohmann::json& object) {
  constexpr size_t kMostNamed = 8;
  std::vector<std::string> names;
  for (const auto& [name, _] : object.items()) {
    if (names.size() < kMostNamed) names.push_back('"' + name + '"');
  }
  if (names.empty()) return "none";
  return fmt::format("{}{}", fmt::join(names, ", "), object.size() > kMostNamed ? ", ..." : "");
}

}  // namespace

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

std::string read_text_field(std::string_view line, const std::string& field) {
  nlohmann::json document;
  try {
    document = nlohmann::json::parse(line);
  } catch (const nlohmann::json::exception& error) {
    throw InvalidLine(fmt::format("is no JSON ({}): correct it", error.what()));
  }
  if (!document.is_object()) {
    throw InvalidLine(fmt::format("holds {} {}, and an object is needed: {{\"{}\": \"...\"}}",
                                  document.is_array() ? "an" : "a", document.type_name(), field));
  }
  const auto found = document.find(field);
  if (found == document.end()) {
    throw InvalidLine(fmt::format("has no field \"{}\", only {}: set data.text_field", field,
                                  describe_fields(document)));
  }
  if (!found->is_string()) {
    throw InvalidLine(fmt::format("has the field \"{}\" of type {}, but it must be a string", field,
                                  found->type_name()));
  }
  return std::move(found->get_ref<std::string&>());
}

}  // namespace colossal::data
