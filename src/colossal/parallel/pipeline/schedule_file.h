// The schedule that a run asks for: a built-in one, or one from a file.
#pragma once

#include <filesystem>
#include <string>

#include "colossal/parallel/pipeline/schedules.h"

namespace colossal::parallel::pipeline {

// parallel.pp_schedule: the name of a built-in schedule, or the path of a file as schedule_text.h
// has them. Throws ConfigError where there is neither, where the file is not right (with line and
// column, or the first conflict), or where it is for other sizes than `shape`; IoError where it
// cannot be read. The messages and buffers of a file are its own.
Schedule chosen_schedule(const std::string& pp_schedule, const PipelineShape& shape,
                         const Costs& costs = {});

// Replaces the file. Throws IoError.
void write_schedule(const std::filesystem::path& path, const Schedule& schedule);

}  // namespace colossal::parallel::pipeline
