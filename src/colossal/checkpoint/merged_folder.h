// Writes the folder of a model with a LoRA adapter merged into its weights, so that the model can
// be used without the adapter.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "colossal/models/families.h"

namespace colossal::checkpoint {

// Writes `folder` with the model's config.json and its weights, merged by AdapterMerge::merged().
// The weights are in the same files and dtypes as in the model's folder. If the adapter has a score
// head that replaces the model's head over the vocabulary, config.json and the weights get the
// score head. specification: of the model with its adapter. files: names and contents of further
// files. changed_config: fields that replace those of config.json.
//
// Throws ConfigError if `folder` exists, the model's weights are quantized, the adapter does not
// fit the weights, or a merged value is not finite in the dtype of the weight. Throws IoError if a
// file is invalid or cannot be written.
void write_merged_folder(const models::ModelSpecification& specification,
                         const std::filesystem::path& folder,
                         const std::vector<std::pair<std::string, std::string>>& files,
                         const nlohmann::json& changed_config = nlohmann::json::object());

}  // namespace colossal::checkpoint
