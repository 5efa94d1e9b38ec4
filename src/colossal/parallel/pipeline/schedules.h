// The built-in schedules. To add one: write a function that returns the order of computations on
// each rank (schedule_functions.h), and add a line to the table in schedules.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

struct PipelineShape {
  int num_ranks = 1;
  int chunks = 1;  // stages per rank
  int num_micro_batches = 1;
  int buffers = 2;  // see Schedule::buffers
};

struct BuiltInSchedule {
  std::string_view name;
  // Returns the computations of each rank, without messages. Depends only on its arguments.
  Schedule (*order)(const PipelineShape& shape, const Costs& costs);
  int minimum_chunks;
  int maximum_chunks;
  int default_chunks;
  std::string_view when_to_choose;
};

std::span<const BuiltInSchedule> schedules();
const BuiltInSchedule* find_schedule(std::string_view name);  // null: not built in

// Returns a valid built-in schedule, with messages. The zero-bubble and V schedules (zb-*, v-*)
// adapt their order to `costs`; without stages in `costs`, all computations take the same time.
// Throws ConfigError for an unknown name, sizes below 1, and a number of chunks that the schedule
// does not support.
Schedule make_schedule(std::string_view name, const PipelineShape& shape, const Costs& costs = {});

}  // namespace colossal::parallel::pipeline
