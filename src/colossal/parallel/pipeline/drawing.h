// Converts a simulated schedule to a timeline that report/timeline.h can draw: one row per rank
// with the rank's computations.
#pragma once

#include <string>

#include "colossal/parallel/pipeline/schedule.h"
#include "colossal/parallel/pipeline/simulator.h"
#include "colossal/report/timeline.h"

namespace colossal::parallel::pipeline {

// Returns the timeline of `simulation`, which simulate(schedule, ..) returned. The label of a
// computation is its kind_name() and its micro-batch: "F3". In every second stage of a rank the
// kind is in lower case: "f3". A pair that runs at the same time is drawn as one computation with
// both labels: "F3&b1". unit: unit of the simulated times, such as "ms"; empty: the times are
// relative.
report::Timeline timeline_of(const Schedule& schedule, const Simulation& simulation,
                             const std::string& unit = "");

}  // namespace colossal::parallel::pipeline
