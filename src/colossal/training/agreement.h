// Compares, when a job starts, the settings and input files that must be the same on all ranks.
// Without the comparison, ranks would train with different settings without a warning, or would
// fail with an error about tensor sizes that does not name the setting.
#pragma once

#include <string>

#include "colossal/comm/world.h"
#include "colossal/job/job.h"

namespace colossal {

// Returns the settings of this rank that comm::connect() compares with those of the other ranks:
//   - the build id;
//   - the value of every configuration key, given or default, except keys that may differ between
//     ranks (KeyOptions::per_rank: paths, properties of the host, output of rank 0). If the user
//     did not set data.sequence_length, train.micro_batch, parallel.dp, parallel.zero,
//     parallel.tp_depth or parallel.tp_sequence, the value is the one that the program has chosen.
//     For all other keys it is the value in Job::config, such as "auto";
//   - the fields of the model's config.json;
//   - the number and total size of the weight files;
//   - a hash of the numbers in the file experts.observed, if there is one.
comm::Settings common_settings(const Job& job);

// Compares the values of `here` on all ranks; used for what ranks find in their files. here: names
// and values, for example the name and the fingerprint of a corpus. If ranks differ, throws a
// ConfigError with the same message on all ranks: it names the first rank that differs from rank 0,
// the first setting that differs, and both values. Collective over all_ranks.
void require_agreement(const comm::Settings& here, const comm::Group& all_ranks);

}  // namespace colossal
