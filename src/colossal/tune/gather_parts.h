// Puts together what the ranks of a job have each a part of.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "colossal/mesh/parallel_context.h"

namespace colossal::tune {

// Returns, on all ranks, the parts of those ranks that have one, in rank order. Numbers keep their
// bits. Law: comm::gather_bytes of the parts in CBOR, booked as `data`. Collective.
std::vector<nlohmann::json> gather_parts(const nlohmann::json& mine, bool has_some,
                                         const ParallelContext& context);

// Whether this rank is the first of those that have the results of the same rows: it has the last
// stage of the model, and is the first of its tp group.
bool has_results(const ParallelContext& context);

}  // namespace colossal::tune
