// Finds settings that would have no effect because of other settings, so that no setting of the
// user is ignored without a warning.
#pragma once

#include <string>
#include <vector>

#include "colossal/booster/job.h"

namespace colossal {

// Throws ConfigError, naming both settings, for settings that ask for the impossible: a profile of
// steps that will not run, a checkpoint without a folder, or a batch that is far too large.
void refuse_impossible_settings(const Job& job);

// Returns a line for each setting that has no effect but does no harm. Each line names both
// settings.
std::vector<std::string> settings_without_effect(const Job& job);

}  // namespace colossal
