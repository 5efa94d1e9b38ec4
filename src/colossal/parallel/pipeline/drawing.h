// A simulated schedule as a picture: a row for each rank, its computations over time.
#pragma once

#include <string>

#include "colossal/parallel/pipeline/schedule.h"
#include "colossal/parallel/pipeline/simulator.h"
#include "colossal/report/timeline.h"

namespace colossal::parallel::pipeline {

// For report::timeline_text, timeline_figure and timeline_svg. A label is the kind and the
// micro-batch, in small letters for a rank's second stage, its fourth, and so on. `unit`: of the
// costs that were simulated ("ms"); "" where they are relative.
report::Timeline timeline_of(const Schedule& schedule, const Simulation& simulation,
                             const std::string& unit = "");

}  // namespace colossal::parallel::pipeline
