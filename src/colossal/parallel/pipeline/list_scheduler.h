// Adapts a pipeline schedule to the costs of its stages and messages by list scheduling. The
// zero-bubble schedules (zb-*) and the V schedules (v-*) use it.
#pragma once

#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Returns an order of computations whose simulated time is at most that of `order`.
//   order      computations with split backward passes, without messages; must be valid for
//              `buffers` once with_communication() has added the messages
//   in_flight  maximum number of micro-batches that a rank may hold between the forward and the
//              weight gradient of a stage; a micro-batch counts once per stage
//   buffers    see Schedule::buffers
//
// A rank whose next computation is not ready runs the first later computation that meets three
// conditions:
// - The inputs of the computation are there.
// - A buffer is free for its result.
// - If the rank then runs its other computations in the given order, the rank never holds more than
//   `in_flight` micro-batches.
//
// Tries several rules for when weight gradients run after other computations. Returns the order
// with the smallest simulated makespan, including messages; among equal ones, the order with the
// smallest sum of SimulatedRank::bubble(). Returns `order` itself if no order is better.
Schedule list_schedule(const Schedule& order, const Costs& costs, int in_flight, int buffers);

}  // namespace colossal::parallel::pipeline
