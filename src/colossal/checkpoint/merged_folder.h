// Writes the folder of a model with an adapter merged into its weights.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "colossal/models/families.h"

namespace colossal::checkpoint {

// Writes `folder` with the model's config.json and weights, in the same files and dtypes as the
// model's folder; the weights of adapted linear layers are W + scale * B A. files: name and content
// of the other files. Throws ConfigError if `folder` exists, if the adapter does not fit the
// weights, or if a sum is not finite in the dtype of the weight; throws IoError if a file is
// invalid or cannot be written.
void write_merged_folder(const models::ModelSpecification& specification,
                         const std::filesystem::path& folder,
                         const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace colossal::checkpoint
