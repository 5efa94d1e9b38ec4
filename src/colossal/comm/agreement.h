// Checks that all ranks of a job were started alike, while they meet and before anything is sent
// that depends on it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::comm {

// Returns "rank 3 has train.seed = 1, rank 0 has 0: ...": the first setting that differs, and the
// names of others that do. Empty if none does.
std::string describe_difference(const Settings& of_rank_0, int rank, const Settings& of_rank);

// Puts a rank's settings into the store before it arrives. Returns their digest, whatever their
// order, for its Arrival.
std::string publish_settings(c10d::Store& store, int rank, const Settings& settings);

// Called when all ranks have arrived. If two differ, throws the same ConfigError on each rank: what
// describe_difference() says of the first rank whose settings are not those of rank 0. The store
// lives as long as anybody reads it, but no longer than `timeout`.
void require_agreement(c10d::Store& store, const Rendezvous& rendezvous,
                       const std::vector<Arrival>& arrivals, std::chrono::milliseconds timeout);

}  // namespace colossal::comm
