// Writes the folder of a model with an adapter merged into its weights.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "colossal/models/families.h"

namespace colossal::checkpoint {

// Writes `folder` with the model's config.json and weights, in files and dtypes as in the model's
// folder. Weights are those of AdapterMerge::merged(). If the adapter has a score head in place of
// the head over the vocabulary, config.json and the files are changed accordingly. files: name and
// content of the folder's other files. Throws ConfigError if `folder` exists, if the adapter does
// not fit the weights, or if a merged value is not finite in the dtype of the weight; throws
// IoError if a file is invalid or cannot be written.
void write_merged_folder(const models::ModelSpecification& specification,
                         const std::filesystem::path& folder,
                         const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace colossal::checkpoint
