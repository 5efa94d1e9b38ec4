// Collects the settings that all ranks of a job must share. Ranks that differ would train together
// in silence, each on its own terms, or end in an error about sizes.
#pragma once

#include <string>

#include "colossal/booster/job.h"
#include "colossal/comm/world.h"

namespace colossal {

// Returns the settings for comm::connect(): the build of the program; every key of run.toml but
// those in which ranks may differ (KeyOptions::per_rank: paths, what a host has, what rank 0 alone
// writes), with what the job has resolved; the model's config.json, and how much lies in its folder
// of weights.
comm::Settings common_settings(const Job& job);

// Collective. `here`: what this rank has found in its files, such as a corpus's contents. Throws
// the same ConfigError on all ranks, naming the first that differs from rank 0 and both values.
void require_agreement(const comm::Settings& here, const comm::Group& all_ranks);

}  // namespace colossal
