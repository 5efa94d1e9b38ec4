#include "colossal/base/config_schema.h"

#include <algorithm>
#include <utility>

#include "colossal/base/nearest.h"
#include "colossal/base/toml.h"

namespace colossal {
namespace {

using nlohmann::json;

std::string section_of(const std::string& key) {
  return key.substr(0, key.find('.'));
}

// Returns what follows the section: "steps" of "train.steps", "a.b" of "model.a.b".
std::string name_of(const std::string& key) {
  return key.substr(key.find('.') + 1);
}

// Returns the value at the path "a.b.c"; creates missing objects.
json& at_path(json& root, const std::string& path) {
  if (!root.is_object()) root = json::object();
  const std::size_t dot = path.find('.');
  json& child = root[path.substr(0, dot)];
  return dot == std::string::npos ? child : at_path(child, path.substr(dot + 1));
}

std::string type_name(const json& value) {
  switch (value.type()) {
    case json::value_t::boolean:
      return "true or false";
    case json::value_t::string:
      return "a string";
    case json::value_t::array:
      return "a list";
    case json::value_t::object:
      return "a table";
    case json::value_t::number_float:
      return "a number with a fraction";
    default:
      return "a whole number";
  }
}

// Returns "--train.steps=many" or "run.toml:3: train.steps = "many"". Long values are cut.
std::string describe_found(const std::string& key, const json& value, ConfigSource source,
                           const std::string& place) {
  constexpr std::size_t kLongest = 60;
  const bool bare = source == ConfigSource::flag && value.is_string();
  std::string text = bare ? value.get<std::string>() : to_toml(value);
  if (text.size() > kLongest) text.replace(kLongest, std::string::npos, "...");
  return source == ConfigSource::flag ? fmt::format("--{}={}", key, text)
                                      : fmt::format("{}: {} = {}", place, key, text);
}

}  // namespace

const char* config_source_name(ConfigSource source) {
  switch (source) {
    case ConfigSource::by_default:
      return "default";
    case ConfigSource::file:
      return "file";
    case ConfigSource::flag:
      return "flag";
  }
  return "?";
}

void ConfigSchema::add_key(Key key) {
  COLOSSAL_CHECK(std::count(key.name.begin(), key.name.end(), '.') == 1,
                 "key \"{}\" is not of the form section.name", key.name);
  COLOSSAL_CHECK(find(key.name) == nullptr, "key \"{}\" is declared twice", key.name);
  try {
    key.assign(key.default_value);
  } catch (const ConfigError& error) {
    COLOSSAL_CHECK(false, "the default of \"{}\", {}, breaks its own rule: {}", key.name,
                   to_toml(key.default_value), error.what());
  }
  if (!has_section(section_of(key.name))) sections_.push_back(section_of(key.name));
  keys_.push_back(std::move(key));
}

void ConfigSchema::open_section(std::string section, json* target, std::string help,
                                std::map<std::string, std::string>* places) {
  if (!has_section(section)) sections_.push_back(section);
  if (!target->is_object()) *target = json::object();
  open_sections_[std::move(section)] = {target, std::move(help), places, {}};
}

void ConfigSchema::read_file(const std::filesystem::path& path) {
  for (const TomlEntry& entry : read_toml_file(path)) {
    const std::string place = fmt::format("{}:{}", path.string(), entry.line);
    const bool empty_section = has_section(entry.key) && entry.value == json::object();
    if (empty_section) continue;
    if (Key* key = find(entry.key)) {
      assign(*key, entry.value, ConfigSource::file, place);
    } else if (find_open_section(entry.key) != nullptr) {
      assign_open(entry.key, entry.value, ConfigSource::file, place);
    } else {
      refuse_key(entry.key, entry.value, place);
    }
  }
}

void ConfigSchema::set(const std::string& name, std::string_view text) {
  if (Key* key = find(name)) {
    assign(*key, key->parse(text), ConfigSource::flag, "");
  } else if (find_open_section(name) != nullptr) {
    assign_open(name, toml_or_text(text), ConfigSource::flag, "");
  } else {
    throw ConfigError(
        fmt::format("--{}={}: no such key; nearest: --{}", name, text, nearest_key(name)));
  }
}

void ConfigSchema::set_flag(std::string_view argument) {
  const std::size_t equals = argument.find('=');
  if (!argument.starts_with('-')) {
    throw ConfigError(fmt::format(
        "unexpected argument {}: give one path only; settings are written --section.key=value",
        argument));
  }
  if (!argument.starts_with("--") || equals == std::string_view::npos) {
    const std::string given(
        argument.substr(std::min(argument.find_first_not_of('-'), argument.size())));
    throw ConfigError(
        find(given) ? fmt::format("{}: the value is missing; write --{}=VALUE", argument, given)
                    : fmt::format("unknown option {}; settings are written --section.key=value; "
                                  "nearest: --{}=VALUE",
                                  argument, nearest_key(given)));
  }
  set(std::string(argument.substr(2, equals - 2)), argument.substr(equals + 1));
}

json ConfigSchema::to_json() const {
  json result = json::object();
  for (const auto& [section, open] : open_sections_) result[section] = *open.target;
  for (const Key& key : keys_) at_path(result, key.name) = key.show();
  return result;
}

std::vector<ConfigSchema::Value> ConfigSchema::values() const {
  std::vector<Value> values;
  for (const std::string& section : sections_) {
    for (const Key& key : keys_) {
      if (section_of(key.name) == section) {
        values.push_back({key.name, display(key, key.show()), key.source, key.options.per_rank});
      }
    }
    const auto open = open_sections_.find(section);
    if (open == open_sections_.end()) continue;
    for (const auto& [name, source] : open->second.sources) {
      values.push_back(
          {section + "." + name, to_toml(at_path(*open->second.target, name)), source});
    }
  }
  return values;
}

ConfigSchema::Key* ConfigSchema::find(const std::string& name) {
  const auto found =
      std::find_if(keys_.begin(), keys_.end(), [&](const Key& key) { return key.name == name; });
  return found == keys_.end() ? nullptr : &*found;
}

ConfigSchema::OpenSection* ConfigSchema::find_open_section(const std::string& key) {
  const auto found = open_sections_.find(section_of(key));
  return found == open_sections_.end() || key.find('.') == std::string::npos ? nullptr
                                                                             : &found->second;
}

bool ConfigSchema::has_section(const std::string& name) const {
  return std::find(sections_.begin(), sections_.end(), name) != sections_.end();
}

// The same name in another section counts as one edit.
std::string ConfigSchema::nearest_key(const std::string& name) const {
  const std::string* best = nullptr;
  std::size_t smallest = 0;
  for (const Key& key : keys_) {
    const std::size_t distance = std::min(edit_distance(name, key.name),
                                          edit_distance(name_of(name), name_of(key.name)) + 1);
    if (best == nullptr || distance < smallest) {
      best = &key.name;
      smallest = distance;
    }
  }
  return best == nullptr ? std::string() : *best;
}

void ConfigSchema::assign(Key& key, const json& value, ConfigSource source,
                          const std::string& place) {
  // A flag wins over the file, whichever is read first. The file's value must be valid anyway.
  const json before = key.show();
  try {
    key.assign(value);
  } catch (const WrongType&) {
    throw ConfigError(fmt::format("{}: found {}, expected {}",
                                  describe_found(key.name, value, source, place), type_name(value),
                                  describe_expected(key)));
  } catch (const BadValue& bad) {
    throw ConfigError(
        fmt::format("{}: {}", describe_found(key.name, value, source, place), bad.what()));
  }
  if (source < key.source) {
    key.assign(before);
  } else {
    key.source = source;
  }
}

// Returns "a whole number of steps from 1, such as train.steps = 1000; if the key is left out:
// ...".
std::string ConfigSchema::describe_expected(const Key& key) const {
  const json& value = key.default_value;
  const bool telling = !value.is_null() && !value.empty() && value != json("");
  return fmt::format(
      "{}, such as {} = {}{}", key.type.values(key.options.unit), key.name,
      telling ? to_toml(value) : key.type.example,
      key.type.unset.empty() ? "" : fmt::format("; if the key is left out: {}", key.type.unset));
}

void ConfigSchema::assign_open(const std::string& key, const json& value, ConfigSource source,
                               const std::string& place) {
  OpenSection& section = *find_open_section(key);
  ConfigSource& before = section.sources.try_emplace(name_of(key), source).first->second;
  if (source < before) return;
  before = source;
  if (section.places) {
    (*section.places)[name_of(key)] = describe_found(key, value, source, place);
  }
  at_path(*section.target, name_of(key)) = value;
}

void ConfigSchema::refuse_key(const std::string& key, const json& value,
                              const std::string& place) const {
  if (has_section(key)) {
    throw ConfigError(fmt::format("{}: this is a section, not a key; write [{}]",
                                  describe_found(key, value, ConfigSource::file, place), key));
  }
  const bool section = value.is_object() && key.find('.') == std::string::npos;
  if (section) {
    throw ConfigError(fmt::format("{}: [{}]: no such section; nearest: [{}]", place, key,
                                  nearest(key, sections_)));
  }
  throw ConfigError(fmt::format("{}: {}: no such key; nearest: {}", place, key, nearest_key(key)));
}

std::string ConfigSchema::display(const Key& key, const json& value) const {
  return value.is_null() ? key.options.unset : to_toml(value);
}

}  // namespace colossal
