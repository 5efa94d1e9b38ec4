// The schedules that are built in. To add one: write a function that gives the order of the
// computations of each rank (schedule_functions.h), and add its line to the table in schedules.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

struct PipelineShape {
  int num_ranks = 1;
  int chunks = 1;  // stages of each rank
  int num_micro_batches = 1;
  int buffers = 2;  // messages under way on each channel, see Schedule
};

struct BuiltInSchedule {
  std::string_view name;
  // The computations of each rank, without messages. Pure: the same for the same arguments.
  Schedule (*order)(const PipelineShape& shape, const Costs& costs);
  int minimum_chunks;
  int maximum_chunks;
  int default_chunks;
  std::string_view when_to_choose;
};

std::span<const BuiltInSchedule> schedules();
const BuiltInSchedule* find_schedule(std::string_view name);  // null: not built in

// A built-in schedule with its messages, which the validator finds right. Costs: without stages,
// all take the same time; the zero-bubble schedules follow them where they differ. Throws
// ConfigError, naming the keys of [parallel], for an unknown name, sizes below 1 and chunks that it
// has not.
Schedule make_schedule(std::string_view name, const PipelineShape& shape, const Costs& costs = {});

}  // namespace colossal::parallel::pipeline
