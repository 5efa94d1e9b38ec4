// One optimizer step of one rank, recorded: the program itself on meta tensors, in a world without
// peers. Nothing is allocated, nothing moves.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/plan/recording.h"

namespace colossal::plan {

// Where in the recording a micro-batch begins.
struct MicroBatchMark {
  int64_t operators = 0, collectives = 0;
  int64_t activation_bytes = 0;  // kept for its backward pass when its forward pass ends
};

struct DryStep {
  Recording recording;
  std::vector<MicroBatchMark> micro_batches;  // as recorded: at most three, first, second and last
  // How many of the step's micro-batches the second one stands for: those between the first, which
  // writes gradients, and the last, which sends them, are alike. 1: for itself.
  int64_t middle_repeats = 1;
  int64_t parameters = 0;  // elements held
};

// A step after the first of rank `rank` of job.strategy.world_size(), with what a run exchanges
// about it. Attention and the like have scratch for the threads of the calling thread.
DryStep record_step(const Job& job, int rank);

}  // namespace colossal::plan
