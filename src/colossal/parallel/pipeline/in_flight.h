// Computes what each rank holds during a schedule. This depends only on the order of the actions,
// not on times.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// The most that a rank holds at once, counted in pairs of a micro-batch and a stage: a micro-batch
// that has passed v stages of the rank counts v times.
struct InFlight {
  int activations = 0;       // from forward to the input gradient
  int weight_gradients = 0;  // from there to the weight gradient
  int held = 0;              // maximum of the sum of both
};

std::vector<InFlight> in_flight_of_ranks(const Schedule& schedule);

// Returns, for each rank, the distinct states in which an action leaves it. A state has six numbers
// for each stage of the pipeline (zeros for other ranks' stages): micro-batches held before and
// after the input gradient; forward and backward messages whose receive is posted and that are not
// used yet; results kept for a stage on the same rank, forward and backward. Its last number is 1
// if the last micro-batch, which may differ in size, has begun on the rank.
std::vector<std::set<std::vector<int>>> held_states_of_ranks(const Schedule& schedule);

// The memory of one micro-batch in one stage.
struct StageMemory {
  double activations = 0;       // bytes held from forward to the input gradient
  double weight_gradients = 0;  // bytes held from there to the weight gradient
};

// Returns the most bytes that each rank holds at once for micro-batches in flight. stages: one
// entry per stage of the pipeline.
std::vector<double> peak_bytes_of_ranks(const Schedule& schedule,
                                        std::span<const StageMemory> stages);

}  // namespace colossal::parallel::pipeline
