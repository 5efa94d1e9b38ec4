// Makes the pipeline schedule that the setting parallel.pp_schedule names, and writes schedules to
// files.
#pragma once

#include <filesystem>
#include <string>

#include "colossal/parallel/pipeline/schedules.h"

namespace colossal::parallel::pipeline {

// Returns a built-in schedule, or the schedule in a file.
//   pp_schedule  name of a built-in schedule, or path of a file in the format of schedule_text.h
//   shape        the sizes of the run. The numbers of ranks, stages and micro-batches in a file
//                must equal those of `shape`. The number of buffers need not: the result has the
//                file's (Schedule::buffers)
//   costs        used for built-in schedules only, see make_schedule()
// Throws what make_schedule() throws for a built-in schedule. Throws ConfigError if pp_schedule is
// neither a built-in schedule nor a file, if the file is not a valid schedule, or if its number of
// ranks, stages or micro-batches differs. Throws IoError if the file cannot be read.
Schedule chosen_schedule(const std::string& pp_schedule, const PipelineShape& shape,
                         const Costs& costs = {});

// Writes schedule_text() to the file `path`, which it replaces atomically if it exists. Throws
// IoError if the file cannot be written.
void write_schedule(const std::filesystem::path& path, const Schedule& schedule);

}  // namespace colossal::parallel::pipeline
