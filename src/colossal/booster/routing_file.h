// routing.json in a run's log directory: how many rows each expert had. Later runs place experts by
// it, and dry runs count with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "colossal/models/language_model.h"

namespace colossal {

// By block of the model, and expert; blocks without experts have none.
using RowsOfExperts = std::vector<std::vector<int64_t>>;

// {"steps": 100, "rows": [[12, 3, ..], ..]}. Throws IoError.
void write_routing(const std::filesystem::path& path, const RowsOfExperts& rows, int64_t steps);

// Throws ConfigError naming the file and what it has where the model has other blocks or experts,
// IoError where it cannot be read.
RowsOfExperts read_routing(const std::filesystem::path& path, const models::ModelFacts& facts);

}  // namespace colossal
