// Finds settings of a run that cannot be satisfied, or have no effect, because of other settings.
// No setting that the user gave is ignored without a message. resolve_job() calls all of these.
#pragma once

#include <string>
#include <vector>

#include "colossal/job/job.h"

namespace colossal {

// Throws ConfigError if the model cannot learn from the data as [data] has it, at whatever layout.
void refuse_impossible_data(const RunConfig& config, const models::ModelSpecification& model);

// Throws ConfigError for a setting that cannot be satisfied: for example a profile of more steps
// than the run has, checkpoints without a folder, or a batch that no machine could hold. The
// message names the setting, the reason, and what would work.
void refuse_impossible_settings(const Job& job);

// Returns a line to log for each setting that has no effect but does no harm. The line names the
// setting and the reason, such as the value of another setting.
std::vector<std::string> settings_without_effect(const Job& job);

}  // namespace colossal
