// The schedule that a run asks for: built-in or read from a file.
#pragma once

#include <filesystem>
#include <string>

#include "colossal/parallel/pipeline/schedules.h"

namespace colossal::parallel::pipeline {

// pp_schedule: the setting parallel.pp_schedule, which is the name of a built-in schedule or the
// path of a file in the format of schedule_text.h. A file states its own buffers; shape.buffers and
// `costs` apply to built-in schedules only. Throws ConfigError if there is neither such a schedule
// nor such a file, if the file is invalid (with line and column, or the first conflict), or if its
// sizes differ from `shape`; IoError if the file cannot be read.
Schedule chosen_schedule(const std::string& pp_schedule, const PipelineShape& shape,
                         const Costs& costs = {});

// Writes schedule_text() to `path` and replaces an existing file atomically. Throws IoError.
void write_schedule(const std::filesystem::path& path, const Schedule& schedule);

}  // namespace colossal::parallel::pipeline
