// Reads TOML files as JSON values with line numbers, and writes JSON values as TOML text. Used by
// ConfigSchema.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal {

// A key and its value in a file.
struct TomlEntry {
  std::string key;  // with the section: "train.steps" for steps = 100 below [train]
  // An inline table {...} below a section is one value, a JSON object. An inline table outside of
  // sections is itself a section: train = {steps = 100} gives "train.steps".
  nlohmann::json value;
  int line = 0;  // line of the key, from 1
};

// Returns the entries of a file in their order. An empty section [train] is the entry "train" with
// an empty object. Throws ConfigError if the file cannot be read. Throws ConfigError, with file,
// line and column, if the file is not valid TOML, or if it contains dates or times, which no key
// accepts.
std::vector<TomlEntry> read_toml_file(const std::filesystem::path& path);

// Parses the text of a TOML value: 100, "text", [1, 2], {host = 0.5}. Returns nullopt if the text
// is not a TOML value, or has a date, a time or a line break.
std::optional<nlohmann::json> parse_toml_value(std::string_view text);

// Returns a value as TOML, the inverse of parse_toml_value(). TOML has no null: a null is written
// as the word unset, which parse_toml_value() does not accept.
std::string to_toml(const nlohmann::json& value);

}  // namespace colossal
