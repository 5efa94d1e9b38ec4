// Gathers JSON values from the ranks of a job.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "colossal/mesh/parallel_context.h"

namespace colossal::tune {

// Returns, on all ranks, the `mine` of each rank that passes has_some = true, in rank order.
// Numbers are preserved bit for bit. Law: comm::gather_bytes of the values in CBOR, counted as
// comm::Reason::data. Collective over all ranks.
std::vector<nlohmann::json> gather_parts(const nlohmann::json& mine, bool has_some,
                                         const ParallelContext& context);

// Whether this rank reports the results of its rows to gather_parts(): it holds the last pipeline
// stage and is the first rank of its tp group. With sp > 1, several ranks of the same rows do.
bool has_results(const ParallelContext& context);

}  // namespace colossal::tune
