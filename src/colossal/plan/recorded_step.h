// Records one optimizer step of one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/plan/recording.h"

namespace colossal::plan {

// How far the recording had come when an action of the schedule ended. Everything between the
// previous mark and this mark belongs to the action's micro-batch.
struct ActionMark {
  int64_t micro_batch = 0;
  int64_t operators = 0, collectives = 0;        // numbers of those recorded so far
  memory::TierPools::Traffic tier_traffic = {};  // so far
};

struct RecordedStep {
  Recording recording;
  std::vector<ActionMark> actions;
  // For each forward pass of a micro-batch through a stage of this rank, in their order: bytes that
  // it keeps for the backward pass.
  std::vector<int64_t> activation_bytes;
  // The first micro-batch of a step writes the gradients, and the last one reduces them. All
  // micro-batches between them cost the same, so not all are recorded: only the first three and the
  // last. With a pipeline, so many are recorded that each rank reaches the same peak as with all.
  // Micro-batch `middle` stands for `middle_repeats` micro-batches of the step, itself included.
  int64_t middle = 0;
  int64_t middle_repeats = 1;
  int64_t parameters = 0;  // number of elements held
  memory::TierPools::Traffic tier_traffic;
  std::map<memory::Tier, memory::BytesByKind> at_rest;  // off the device, at the tier's peak
};

// Records a dry run of a step of rank `rank`: the real program on meta tensors, in a world without
// peers. Allocates no tensor memory and sends nothing. Workspace of kernels is counted for
// at::get_num_threads() threads.
RecordedStep record_step(const Job& job, int rank);

// Records a step of this rank of `world`. Tests use it to compare a dry run with a real step.
// device: the rank's device, or meta. make_batches: makes the micro-batches; their memory is
// counted. The result's middle_repeats is 1.
RecordedStep record_step(const Job& job, comm::World& world, at::Device device,
                         const std::function<std::vector<data::Batch>()>& make_batches);

}  // namespace colossal::plan
