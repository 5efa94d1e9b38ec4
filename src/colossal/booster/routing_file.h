// The file routing.json in a run's log directory: how many rows were routed to each expert. With
// experts.observed, later runs place experts by these numbers, and dry runs assume them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "colossal/models/language_model.h"

namespace colossal {

// [blocks][experts]; the entry of a block without experts is empty.
using RowsOfExperts = std::vector<std::vector<int64_t>>;

// Writes {"steps": 100, "rows": [[12, 3, ..], ..]}. rows: summed over `steps` steps. Throws
// IoError.
void write_routing(const std::filesystem::path& path, const RowsOfExperts& rows, int64_t steps);

// Returns the rows in the file. Throws ConfigError if the file has other numbers of blocks or
// experts than the model, or no rows; the message names the file and what it has. Throws IoError if
// the file cannot be read.
RowsOfExperts read_routing(const std::filesystem::path& path, const models::ModelFacts& facts);

}  // namespace colossal
