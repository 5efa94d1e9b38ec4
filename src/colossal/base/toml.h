// Reads TOML files as JSON values with line numbers, and writes values as TOML text.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal {

// A value in a file. For example, steps = 100 below [train] has the key "train.steps".
struct TomlEntry {
  std::string key;
  nlohmann::json value;  // an inline table {...} below a section is one value, a JSON object
  int line = 0;          // counts from 1
};

// Returns the entries in the order of the file. An empty section [train] is the entry "train" with
// an empty object.
// Throws ConfigError, with file, line and column, if the file is not valid TOML, if it contains
// dates or times (no key accepts them), or if it cannot be read.
std::vector<TomlEntry> read_toml_file(const std::filesystem::path& path);

// Parses the text of a TOML value: 100, "text", [1, 2], {host = 0.5}. Returns nullopt for any other
// text.
std::optional<nlohmann::json> parse_toml_value(std::string_view text);

// The inverse of parse_toml_value(). TOML has no null; null is written as "unset".
std::string to_toml(const nlohmann::json& value);

}  // namespace colossal
