// Compares the settings that must be the same on all ranks of a job. Without the comparison, ranks
// with different settings would each train with their own without a warning, or fail with an error
// about sizes that does not name the cause.
#pragma once

#include <string>

#include "colossal/booster/job.h"
#include "colossal/comm/world.h"

namespace colossal {

// Returns the settings that comm::connect() compares: the build id; every key of run.toml with its
// resolved value, except keys that may differ between ranks (KeyOptions::per_rank: paths,
// properties of the host, output of rank 0); the fields of the model's config.json; the number and
// total size of the weight files; and a hash of the rows in experts.observed.
comm::Settings common_settings(const Job& job);

// Compares `here` on all ranks. here: names and values of what this rank found in its files, for
// example the fingerprint of a corpus. If ranks differ, throws the same ConfigError on all ranks.
// The message names the first rank that differs from rank 0, and both values. Collective.
void require_agreement(const comm::Settings& here, const comm::Group& all_ranks);

}  // namespace colossal
