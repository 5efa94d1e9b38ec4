// Computes what a schedule makes each rank hold. It depends on the order of actions alone, not on
// times.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// The most that a rank holds at once, in micro-batches of one stage: with v stages a rank, a
// micro-batch through all of the rank's layers counts v.
struct InFlight {
  int activations = 0;       // from the forward to the gradient of the input
  int weight_gradients = 0;  // from there to the gradients of the weights
  int held = 0;              // both together: from the forward to the end
};

std::vector<InFlight> in_flight_of_ranks(const Schedule& schedule);

// Returns, for each rank, the set of all that it ever holds between two of its actions. An element
// lists for each stage of the pipeline: micro-batches before and after the gradient of the input;
// messages received and not used, forward and backward; what goes on to another stage of the same
// rank, forward and backward. Its last number says whether the last micro-batch, which may differ
// from the others, has begun at the rank.
std::vector<std::set<std::vector<int>>> held_states_of_ranks(const Schedule& schedule);

// What one micro-batch takes in one stage.
struct StageMemory {
  double activations = 0;       // bytes from the forward to the gradient of the input
  double weight_gradients = 0;  // bytes from there on, until the gradients of the weights
};

// Returns the most bytes that each rank holds for micro-batches in flight. `stages` has one entry
// for each stage.
std::vector<double> peak_bytes_of_ranks(const Schedule& schedule,
                                        std::span<const StageMemory> stages);

}  // namespace colossal::parallel::pipeline
