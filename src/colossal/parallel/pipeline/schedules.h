// The built-in pipeline schedules, by name. To add one, write a function that returns the order of
// computations on each rank (schedule_functions.h), and add a line to the table in schedules.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

struct PipelineShape {
  int num_ranks = 1;  // parallel.pp
  int chunks = 1;     // stages per rank
  int num_micro_batches = 1;
  // Schedule::buffers. From one stage to a neighbouring stage, at most this many messages are sent
  // before their receives are posted, and at most this many receives are posted whose messages are
  // not used yet.
  int buffers = 2;
};

struct BuiltInSchedule {
  std::string_view name;  // as in parallel.pp_schedule: "1f1b"
  // Returns the computations of each rank in order, without messages. A pure function.
  Schedule (*order)(const PipelineShape& shape, const Costs& costs);
  // Numbers of chunks that the schedule supports, and the number that is used by default.
  int minimum_chunks;
  int maximum_chunks;
  int default_chunks;
  std::string_view when_to_choose;  // text for users: what the schedule is good for
};

// Returns all built-in schedules.
std::span<const BuiltInSchedule> schedules();
// Returns the schedule with this name; null if there is none.
const BuiltInSchedule* find_schedule(std::string_view name);

// Returns a valid built-in schedule with sends and receives. The schedules zb-* and v-* adapt their
// order to `costs`. If costs.stages is empty, each stage has the default StageCosts. Throws
// ConfigError if the name is unknown, a size is below 1, or the schedule does not support the
// number of chunks. Throws InternalError if the sizes of `costs` do not match `shape`.
Schedule make_schedule(std::string_view name, const PipelineShape& shape, const Costs& costs = {});

}  // namespace colossal::parallel::pipeline
