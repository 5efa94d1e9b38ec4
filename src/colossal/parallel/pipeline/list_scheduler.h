// Adapts a pipeline schedule to the costs of its stages and messages by list scheduling. The
// zero-bubble schedules (zb-*) and the V schedules (v-*) use it.
#pragma once

#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Returns an order of the computations of `order`, again without messages, whose simulated time is
// at most that of `order`.
//   order      computations with split backward passes, without messages; must be valid for
//              `buffers` once with_communication() has added the messages
//   in_flight  maximum number of micro-batches that a rank may hold between the forward and the
//              weight gradient of a stage; a micro-batch counts once per stage
//   buffers    see Schedule::buffers
//
// Makes an order by simulation. Whenever a rank is free, it runs the first of its remaining
// computations, in the order of `order`, that meets these conditions:
// - The inputs of the computation are there.
// - If the rank runs it now, and then the remaining computations before it, the rank never holds
//   more than `in_flight` micro-batches.
// - If computations before it remain, and its result is to be sent to another rank: of the messages
//   that its stage has sent in this direction, fewer than 2 * `buffers` have not been used yet.
//
// Makes an order in this way with each of three rules. They say when a rank runs a weight gradient:
// - Rule 1: like any other computation.
// - Rule 2: like any other computation until the rank's last forward has run, then as in rule 3.
// - Rule 3: only if no other kind of computation meets the conditions.
//
// Returns the order with the smallest simulated makespan, including messages; among equal ones, the
// order with the smallest sum of SimulatedRank::bubble(). Returns `order` itself if no order is
// better.
Schedule list_schedule(const Schedule& order, const Costs& costs, int in_flight, int buffers);

}  // namespace colossal::parallel::pipeline
