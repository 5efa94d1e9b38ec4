// Checks at rendezvous, before any communication that depends on it, that all ranks of a job were
// started with the same settings.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::comm {

// Returns "rank 3 has train.seed = 1, rank 0 has 0: ...": the first setting that differs, followed
// by the names of all other settings that differ. Empty if none differs.
std::string describe_difference(const Settings& of_rank_0, int rank, const Settings& of_rank);

// Writes a rank's settings to the store, before meet_all(). Returns a digest of the settings,
// independent of their order, for Arrival::settings.
std::string publish_settings(c10d::Store& store, int rank, const Settings& settings);

// Call it after meet_all(). If any rank's settings differ from rank 0's, throws the same
// ConfigError on every rank, with describe_difference() of the first such rank. Before it throws,
// rank 0, which may serve the store, waits until all others have read the settings, but no longer
// than `timeout`.
void require_agreement(c10d::Store& store, const Rendezvous& rendezvous,
                       const std::vector<Arrival>& arrivals, std::chrono::milliseconds timeout);

}  // namespace colossal::comm
