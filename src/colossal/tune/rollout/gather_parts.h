// Gathers JSON values from the ranks of a job on all ranks, e.g. the completions that each rank has
// sampled.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "colossal/mesh/parallel_context.h"

namespace colossal::tune {

// Returns, on all ranks, the values `mine` of the ranks that pass has_some = true, in rank order;
// the other ranks' `mine` is ignored. Numbers are preserved bit for bit. Collective over all ranks.
// Law: comm::gather_bytes() of the values in CBOR, counted as comm::Reason::data.
std::vector<nlohmann::json> gather_parts(const nlohmann::json& mine, bool has_some,
                                         const ParallelContext& context);

// Whether this rank should pass the model's results for its rows to gather_parts(): it holds the
// last pipeline stage and is the first rank of its tp group. With sp > 1, this is true on sp ranks
// that have the same rows; add the condition that the rank's sp coordinate is 0 if each row is to
// be passed once.
bool has_results(const ParallelContext& context);

}  // namespace colossal::tune
