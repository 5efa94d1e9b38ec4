// A simulated schedule as a timeline: one row per rank with its computations.
#pragma once

#include <string>

#include "colossal/parallel/pipeline/schedule.h"
#include "colossal/parallel/pipeline/simulator.h"
#include "colossal/report/timeline.h"

namespace colossal::parallel::pipeline {

// Returns the input of report::timeline_text, timeline_figure and timeline_svg. A computation's
// label is its kind and micro-batch: "F3", or "f3" in a rank's second stage, fourth stage and so
// on. unit: unit of the simulated costs, such as "ms"; "": they are relative.
report::Timeline timeline_of(const Schedule& schedule, const Simulation& simulation,
                             const std::string& unit = "");

}  // namespace colossal::parallel::pipeline
