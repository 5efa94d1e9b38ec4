// Finds settings that would do nothing beside the others, so that nothing that a user asks for is
// ignored in silence.
#pragma once

#include <string>
#include <vector>

#include "colossal/booster/job.h"

namespace colossal {

// Refuses settings that ask for the impossible (a profile of steps that are never made, a
// checkpoint without a folder, a batch of absurd size): throws ConfigError naming both settings.
void refuse_impossible_settings(const Job& job);

// Returns a line for each setting that has no effect on a run that is sensible without it, naming
// both settings.
std::vector<std::string> settings_without_effect(const Job& job);

}  // namespace colossal
