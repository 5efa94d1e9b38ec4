#include "colossal/base/toml.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "colossal/base/error.h"

namespace colossal {
namespace {

using nlohmann::json;

struct DateFound {
  toml::source_position place;
};

json to_json(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    json object = json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = to_json(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    json list = json::array();
    for (const toml::node& item : *array) list.push_back(to_json(item));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  throw DateFound{node.source().begin};
}

struct PlacedEntry {
  TomlEntry entry;
  toml::source_position place;
};

// Appends the entries of `table`. depth: 0 for the file's top level, whose tables are sections even
// if they are inline. At other depths, an inline table is a value.
void flatten(const toml::table& table, const std::string& prefix, int depth,
             std::vector<PlacedEntry>& entries) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    const toml::table* inner = node.as_table();
    if (inner != nullptr && !inner->empty() && (depth == 0 || !inner->is_inline())) {
      flatten(*inner, name + ".", depth + 1, entries);
      continue;
    }
    const toml::source_position place = key.source().begin;
    entries.push_back({{name, to_json(node), static_cast<int>(place.line)}, place});
  }
}

std::string read_text(const std::filesystem::path& path) {
  const bool directory = std::filesystem::is_directory(path);
  std::ifstream file(path, std::ios::binary);
  if (!file || directory) {
    throw ConfigError(fmt::format("{}: cannot read this configuration file: {}", path.string(),
                                  directory ? "it is a directory" : std::strerror(errno)));
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

// A JSON string is also a valid basic string of TOML.
std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

bool is_bare_key(const std::string& key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-';
  });
}

}  // namespace

std::vector<TomlEntry> read_toml_file(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  std::vector<PlacedEntry> placed;
  try {
    flatten(toml::parse(text, path.string()), "", 0, placed);
  } catch (const toml::parse_error& error) {
    const toml::source_position place = error.source().begin;
    throw ConfigError(fmt::format("{}:{}:{}: not valid TOML: {}", path.string(), place.line,
                                  place.column, error.description()));
  } catch (const DateFound& date) {
    throw ConfigError(fmt::format("{}:{}:{}: a date or time, which no key takes; text needs quotes",
                                  path.string(), date.place.line, date.place.column));
  }
  std::sort(placed.begin(), placed.end(),
            [](const PlacedEntry& a, const PlacedEntry& b) { return a.place < b.place; });
  std::vector<TomlEntry> entries;
  for (PlacedEntry& each : placed) entries.push_back(std::move(each.entry));
  return entries;
}

std::optional<json> parse_toml_value(std::string_view text) {
  // A line break could end the value and begin another key.
  if (text.find('\n') != std::string_view::npos) return std::nullopt;
  try {
    return to_json(*toml::parse(fmt::format("value = {}", text)).get("value"));
  } catch (const toml::parse_error&) {
    return std::nullopt;
  } catch (const DateFound&) {
    return std::nullopt;
  }
}

std::string to_toml(const json& value) {
  std::vector<std::string> items;
  switch (value.type()) {
    case json::value_t::null:
      return "unset";
    case json::value_t::string:
      return quoted(value.get<std::string>());
    case json::value_t::array:
      for (const json& item : value) items.push_back(to_toml(item));
      return fmt::format("[{}]", fmt::join(items, ", "));
    case json::value_t::object:
      for (const auto& [key, item] : value.items()) {
        items.push_back(
            fmt::format("{} = {}", is_bare_key(key) ? key : quoted(key), to_toml(item)));
      }
      return fmt::format("{{{}}}", fmt::join(items, ", "));
    case json::value_t::number_float: {
      const double number = value.get<double>();
      if (std::isnan(number)) return "nan";
      if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
      return value.dump();
    }
    default:
      return value.dump();
  }
}

}  // namespace colossal
