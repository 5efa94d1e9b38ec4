// A family's sizes by name.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace colossal::models {

template <typename Config>
using PresetList = std::vector<std::pair<std::string, Config>>;

template <typename Config>
std::vector<std::string> names_of(const PresetList<Config>& presets) {
  std::vector<std::string> names;
  for (const auto& [name, config] : presets) names.push_back(name);
  return names;
}

// Nothing: the family has none of this name.
template <typename Config>
std::optional<Config> find_preset(const PresetList<Config>& presets, const std::string& wanted) {
  for (const auto& [name, config] : presets) {
    if (name == wanted) return config;
  }
  return std::nullopt;
}

}  // namespace colossal::models
