// routing.json in a run's log directory: the number of rows of each expert. Later runs place
// experts by these numbers, and dry runs use them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "colossal/models/language_model.h"

namespace colossal {

// [blocks][experts]; the entry of a block without experts is empty.
using RowsOfExperts = std::vector<std::vector<int64_t>>;

// Writes {"steps": 100, "rows": [[12, 3, ..], ..]}. Throws IoError.
void write_routing(const std::filesystem::path& path, const RowsOfExperts& rows, int64_t steps);

// Throws ConfigError if the model has other numbers of blocks or experts than the file; the message
// names the file and its contents. Throws IoError if the file cannot be read.
RowsOfExperts read_routing(const std::filesystem::path& path, const models::ModelFacts& facts);

}  // namespace colossal
