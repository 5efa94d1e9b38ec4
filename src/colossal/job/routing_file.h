// Writes and reads routing.json, a file in a run's log.directory: the number of rows (tokens) that
// were routed to each expert of a mixture-of-experts model. A later run whose key experts.observed
// names the file places experts on ranks by these numbers; its dry runs assume these numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "colossal/models/model_facts.h"

namespace colossal {

// Number of rows of each expert, [blocks][experts]; the entry of a block without experts is empty.
using RowsOfExperts = std::vector<std::vector<int64_t>>;

// Writes the file as {"steps": 100, "rows": [[12, 3, ..], ..]}. rows: sums over `steps` steps.
// Throws IoError.
void write_routing(const std::filesystem::path& path, const RowsOfExperts& rows, int64_t steps);

// Reads "rows" from the file. facts: the model that the numbers must fit. Throws ConfigError if the
// file has no "rows", an invalid number, or other numbers of blocks or experts than the model; the
// message names the file and what is wrong. Throws IoError if the file cannot be read or is not
// JSON.
RowsOfExperts read_routing(const std::filesystem::path& path, const models::ModelFacts& facts);

}  // namespace colossal
