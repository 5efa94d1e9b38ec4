// One optimizer step of one rank, recorded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/plan/recording.h"

namespace colossal::plan {

// Marks where in the recording an action of the schedule ended. All recorded since the mark before
// belongs to its micro-batch.
struct ActionMark {
  int64_t micro_batch = 0;
  int64_t operators = 0, collectives = 0;
  memory::TierPools::Traffic tier_traffic = {};
};

struct RecordedStep {
  Recording recording;
  std::vector<ActionMark> actions;
  // For each micro-batch of each stage of this rank, in the order of forward passes: the bytes kept
  // for its backward pass when its forward pass has ended.
  std::vector<int64_t> activation_bytes;
  // Micro-batches between the first, which writes gradients, and the last, which sends them, are
  // alike. So only the first three and the last are recorded; of a pipeline, somewhat more than are
  // ever in flight. Micro-batch `middle` stands for `middle_repeats` of the step's, itself
  // included.
  int64_t middle = 0;
  int64_t middle_repeats = 1;
  int64_t parameters = 0;  // elements held
  memory::TierPools::Traffic tier_traffic;
  std::map<memory::Tier, memory::BytesByKind> at_rest;  // off the device, at the tier's peak
};

// Records a dry step of rank `rank` of job.strategy.world_size(): the program itself on meta
// tensors, in a world without peers. It allocates and sends nothing. Kernels count scratch for
// at::get_num_threads() threads.
RecordedStep record_step(const Job& job, int rank);

// The same in any world, on its device or on meta, with these micro-batches. Tests compare a dry
// step with a real one by it. Weights are zeros. The memory of the batches is counted.
RecordedStep record_step(const Job& job, comm::World& world, at::Device device,
                         const std::function<std::vector<data::Batch>()>& make_batches);

}  // namespace colossal::plan
