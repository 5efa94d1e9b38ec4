// Records one optimizer step of one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/plan/recording.h"

namespace colossal::plan {

// The position in the recording where an action of the schedule ended. Everything between the
// previous mark and this mark belongs to the action's micro-batch.
struct ActionMark {
  int64_t micro_batch = 0;
  int64_t operators = 0, collectives = 0;
  memory::TierPools::Traffic tier_traffic = {};
};

struct RecordedStep {
  Recording recording;
  std::vector<ActionMark> actions;
  // For each micro-batch of each stage of this rank, in the order of forward passes: bytes kept for
  // its backward pass, at the end of its forward pass.
  std::vector<int64_t> activation_bytes;
  // All micro-batches between the first, which writes gradients, and the last, which reduces them,
  // cost the same. So only the first three and the last are recorded; with a pipeline, somewhat
  // more than are ever in flight. Micro-batch `middle` stands for `middle_repeats` micro-batches of
  // the step, including itself.
  int64_t middle = 0;
  int64_t middle_repeats = 1;
  int64_t parameters = 0;  // number of elements held
  memory::TierPools::Traffic tier_traffic;
  std::map<memory::Tier, memory::BytesByKind> at_rest;  // off the device, at the tier's peak
};

// Records a dry-run step of rank `rank` of job.strategy.world_size() ranks: the real program on
// meta tensors, in a world without peers. Allocates and sends nothing. Kernels count workspace for
// at::get_num_threads() threads.
RecordedStep record_step(const Job& job, int rank);

// Records a step in any world, on its device or on meta, with the given micro-batches. Tests use it
// to compare a dry run with a real step. Weights are zeros. The memory of the batches is counted.
RecordedStep record_step(const Job& job, comm::World& world, at::Device device,
                         const std::function<std::vector<data::Batch>()>& make_batches);

}  // namespace colossal::plan
