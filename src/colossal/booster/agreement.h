// Compares the settings that all ranks of a job must share. Without the comparison, ranks with
// different settings would train with no warning, each with its own settings, or fail with an
// unrelated error about sizes.
#pragma once

#include <string>

#include "colossal/booster/job.h"
#include "colossal/comm/world.h"

namespace colossal {

// Returns the settings for comm::connect(): the build id; every key of run.toml with its resolved
// value, except keys that may differ between ranks (KeyOptions::per_rank: paths, properties of the
// host, output of rank 0); the model's config.json; and the number and total size of the weight
// files.
comm::Settings common_settings(const Job& job);

// Collective. here: what this rank found in its files, for example a fingerprint of a corpus. If
// ranks differ, throws the same ConfigError on all ranks. The message names the first rank that
// differs from rank 0, and both values.
void require_agreement(const comm::Settings& here, const comm::Group& all_ranks);

}  // namespace colossal
