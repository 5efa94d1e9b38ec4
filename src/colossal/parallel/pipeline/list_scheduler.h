// Adapts an order of computations to costs, for the zero-bubble and V schedules.
#pragma once

#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// order: computations with split backward, without messages, valid with `buffers`. Returns an order
// that takes no longer. A rank that would wait for its next computation instead runs the first
// later one that meets three conditions: it is ready; its result can be sent at once; and, if all
// other computations then ran in the given order, the rank would never hold more than `in_flight`
// micro-batches, counted per stage and from forward to weight gradient.
//
// Tries several rules for when other computations go before weight gradients. Returns the order
// with the smallest simulated makespan, messages included; on a tie, the one with the smallest sum
// of the ranks' bubbles; and `order` itself if none is better.
Schedule list_schedule(const Schedule& order, const Costs& costs, int in_flight, int buffers);

}  // namespace colossal::parallel::pipeline
