// Finds settings that have no effect because of other settings, so that no setting that the user
// gave is ignored silently.
#pragma once

#include <string>
#include <vector>

#include "colossal/booster/job.h"

namespace colossal {

// Throws ConfigError for a setting that asks for the impossible: a profile of steps that will not
// run, checkpoints without a folder, or a batch that is far too large. The message names the
// setting, what contradicts it, and what would work.
void refuse_impossible_settings(const Job& job);

// Returns a line for each setting that has no effect but does no harm. The line names the setting
// and the other setting that makes it ineffective.
std::vector<std::string> settings_without_effect(const Job& job);

}  // namespace colossal
