// Gathers JSON values from the ranks of a job.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "colossal/mesh/parallel_context.h"

namespace colossal::tune {

// Returns, on all ranks, the values `mine` of those ranks where `has_some` is true, in rank order.
// Numbers are preserved bit for bit. Law: comm::gather_bytes of the values in CBOR, counted as
// `data`. Collective.
std::vector<nlohmann::json> gather_parts(const nlohmann::json& mine, bool has_some,
                                         const ParallelContext& context);

// Whether this rank reports results of its rows: it has the last pipeline stage and is the first
// rank of its tp group.
bool has_results(const ParallelContext& context);

}  // namespace colossal::tune
