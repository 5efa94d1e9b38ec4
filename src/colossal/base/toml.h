// TOML files as JSON values with their places, and values as TOML text.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal {

// A value in a file: steps = 100 below [train] has the key "train.steps".
struct TomlEntry {
  std::string key;
  nlohmann::json value;  // an inline table {...} below a section is one value, an object
  int line = 0;          // from 1
};

// Returns the entries in the order of the file. An empty section is an entry with an empty object.
// Throws ConfigError, with file, line and column, for what is not TOML, for dates and times (no key
// takes one), and for a file that cannot be read.
std::vector<TomlEntry> read_toml_file(const std::filesystem::path& path);

// A value as it would stand behind "=": 100, "text", [1, 2], {host = 0.5}. Nothing for other text.
std::optional<nlohmann::json> parse_toml_value(std::string_view text);

// The inverse. `null`, which TOML does not have, is written as "unset".
std::string to_toml(const nlohmann::json& value);

}  // namespace colossal
