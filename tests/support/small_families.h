// A small config.json of every family.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace colossal::test {

// The names of all families that read texts, and of those that read images, as config.json has them
// in "model_type".
std::vector<std::string> family_names();
std::vector<std::string> vision_family_names();

// The contents of config.json, with larger initial weights than usual where the family has a field
// for them, so that what a layer does wrong is seen in the loss.
nlohmann::json small_config(const std::string& family);

// Writes `config` to FOLDER/config.json, and returns the folder's path.
std::string write_config(const std::filesystem::path& folder, const nlohmann::json& config);

}  // namespace colossal::test
