// Computes how many micro-batches, and how many bytes for them, each rank of a pipeline holds
// during a schedule. This depends only on the order of the actions, not on times.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Maximum numbers of micro-batches that a rank holds at the same time. A micro-batch counts once
// for each stage of the rank in which it is held.
struct InFlight {
  int activations = 0;       // held between the forward and the input gradient of a stage
  int weight_gradients = 0;  // held between the input gradient and the weight gradient of a stage
  int held = 0;              // maximum of activations + weight gradients held at the same time
};

// Returns the InFlight of each rank of the pipeline, [ranks].
std::vector<InFlight> in_flight_of_ranks(const Schedule& schedule);

// Returns, for each rank, the distinct states of its memory: the state after each action, without
// duplicates. A state is a list of 6 * stages + 1 numbers, where `stages` is the number of the
// rank's stages. For each of them, in model order, there are six:
//   0  micro-batches between their forward and their input gradient
//   1  micro-batches between their input gradient and their weight gradient
//   2  posted receives of activations that the stage has not used yet
//   3  posted receives of gradients that the stage has not used yet
//   4  activations that the stage has computed and the next stage, on this rank, has not used
//   5  gradients that the stage has computed and the previous stage, on this rank, has not used
// The last number is 0 before the rank's first action for the last micro-batch, 1 from then on.
// Sends and receives are actions, too. The last micro-batch may have fewer samples than the others.
std::vector<std::set<std::vector<int>>> held_states_of_ranks(const Schedule& schedule);

// The memory of one micro-batch in one stage, in bytes.
struct StageMemory {
  double activations = 0;       // held between the forward and the input gradient
  double weight_gradients = 0;  // held between the input gradient and the weight gradient
};

// Returns the maximum number of bytes that each rank holds at the same time for micro-batches.
// stages: one element per stage of the pipeline.
std::vector<double> peak_bytes_of_ranks(const Schedule& schedule,
                                        std::span<const StageMemory> stages);

}  // namespace colossal::parallel::pipeline
