// What a schedule makes each rank hold: a function of the order alone, not of times.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// The most that a rank holds at once. One is a micro-batch of one of its stages, so with v chunks a
// rank a micro-batch of the rank's layers counts v.
struct InFlight {
  int activations = 0;       // from the forward to the gradient of the input
  int weight_gradients = 0;  // from there to the gradients of the weights
  int held = 0;              // both together: from the forward to the end
};

std::vector<InFlight> in_flight_of_ranks(const Schedule& schedule);

// All that each rank ever holds at once, between two of its actions: for each stage of the pipeline
// micro-batches before and after the gradient of the input, messages asked for and not used,
// forward and backward, and what goes on to another stage of the same rank, forward and backward;
// at the end, whether the last micro-batch, which may be another than the rest, has begun at the
// rank.
std::vector<std::set<std::vector<int>>> held_states_of_ranks(const Schedule& schedule);

// Of one micro-batch in one stage.
struct StageMemory {
  double activations = 0;       // bytes from the forward to the gradient of the input
  double weight_gradients = 0;  // bytes from there on, until the gradients of the weights
};

// The most bytes that each rank holds for micro-batches in flight. stages: [stages].
std::vector<double> peak_bytes_of_ranks(const Schedule& schedule,
                                        std::span<const StageMemory> stages);

}  // namespace colossal::parallel::pipeline
