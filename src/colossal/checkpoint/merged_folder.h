// Writes the folder of a model with an adapter merged into its weights.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "colossal/models/families.h"

namespace colossal::checkpoint {

// Writes `folder`: the model's weights, in the files and types that they have, where those of
// adapted products are W + scale * B A, and the model's config.json. files: name and content of
// what lies beside these. Throws ConfigError if `folder` exists, if the adapter does not fit the
// weights, or if a sum is not finite in the weight's type; IoError for bad or unwritable files.
void write_merged_folder(const models::ModelSpecification& specification,
                         const std::filesystem::path& folder,
                         const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace colossal::checkpoint
