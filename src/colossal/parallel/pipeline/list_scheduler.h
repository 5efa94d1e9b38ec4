// Orders of computation that follow costs: what the zero-bubble schedules use where stages differ.
#pragma once

#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Takes an order of computations with split backward (no messages) that is right with `buffers`,
// and returns one that takes no longer. A rank that would wait for its next computation takes the
// first of the following ones that is ready, whose result can be sent at once, and that leaves at
// most `in_flight` micro-batches of its stages held at any later time (from forward to weight
// gradient), if everything else then ran in the given order.
//
// It tries several rules of when weight gradients give way to the rest, and returns the order that
// the simulator finds shortest with its messages; of equal ones that in which ranks wait least
// between their first computation and their last; the given order if none is better.
Schedule list_schedule(const Schedule& order, const Costs& costs, int in_flight, int buffers);

}  // namespace colossal::parallel::pipeline
