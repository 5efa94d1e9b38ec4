// Sizes of pipelines for tests: ranks, chunks and micro-batches of every kind.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "colossal/parallel/pipeline/schedules.h"

namespace colossal::parallel::pipeline {

inline constexpr int kRanks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16};

// The largest number of chunks that tests build a schedule with.
inline int most_chunks(const BuiltInSchedule& schedule) {
  return std::min(schedule.maximum_chunks, 4);
}

// For each built-in schedule: 1 to 16 ranks, all its chunks, and fewer, as many, more micro-batches
// than ranks, a multiple and none.
struct ScheduleCase {
  std::string name;
  PipelineShape shape;
};

inline std::vector<ScheduleCase> schedule_cases(const std::vector<int>& ranks) {
  std::vector<ScheduleCase> cases;
  for (const BuiltInSchedule& schedule : schedules()) {
    for (const int p : ranks) {
      std::vector<int> micro_batches{1, 2, p - 1, p, p + 1, 2 * p - 1, 2 * p, 3 * p + 2, 4 * p};
      std::ranges::sort(micro_batches);
      micro_batches.erase(std::unique(micro_batches.begin(), micro_batches.end()),
                          micro_batches.end());
      for (int chunks = schedule.minimum_chunks; chunks <= most_chunks(schedule); ++chunks) {
        for (const int m : micro_batches) {
          if (m >= 1) cases.push_back({std::string(schedule.name), {p, chunks, m}});
        }
      }
    }
  }
  return cases;
}

inline std::string case_name(const ScheduleCase& one) {
  return one.name + ", " + std::to_string(one.shape.num_ranks) + " ranks, " +
         std::to_string(one.shape.chunks) + " chunks, " +
         std::to_string(one.shape.num_micro_batches) + " micro-batches";
}

inline PipelineShape with_buffers(PipelineShape shape, int buffers) {
  shape.buffers = buffers;
  return shape;
}

// Costs of stages that are all the same.
inline Costs equal_costs(const PipelineShape& shape, StageCosts stage) {
  Costs costs;
  costs.stages.assign(static_cast<size_t>(shape.num_ranks) * shape.chunks, stage);
  return costs;
}

}  // namespace colossal::parallel::pipeline
