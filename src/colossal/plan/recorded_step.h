// One optimizer step of one rank, recorded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/plan/recording.h"

namespace colossal::plan {

// Where in the recording a stage begins a micro-batch.
struct MicroBatchMark {
  int64_t operators = 0, collectives = 0;
  int64_t activation_bytes = 0;  // kept for its backward pass when its forward pass ends
  memory::TierPools::Traffic tier_traffic = {};  // before it
};

struct RecordedStep {
  Recording recording;
  // As recorded: those of a pipeline all, in the order of its schedule; else at most four, the
  // first three and the last. The third is the first that begins with sums of gradients at rest,
  // since those of the first come to rest in the second.
  std::vector<MicroBatchMark> micro_batches;
  // How many of the step's micro-batches the second one stands for: those between the first, which
  // writes gradients, and the last, which sends them, are alike. 1: for itself.
  int64_t middle_repeats = 1;
  int64_t parameters = 0;  // elements held
  memory::TierPools::Traffic tier_traffic;
  std::map<memory::Tier, memory::BytesByKind> at_rest;  // off the device, at the tier's peak
};

// A dry step of rank `rank` of job.strategy.world_size(): the program itself on meta tensors, in a
// world without peers. Nothing is allocated, nothing moves. Kernels take scratch for
// at::get_num_threads().
RecordedStep record_step(const Job& job, int rank);

// The same in any world, on its device or on meta, with these micro-batches: how a dry step is
// compared with a real one. Weights are zeros. The memory of the batches is counted.
RecordedStep record_step(const Job& job, comm::World& world, at::Device device,
                         const std::function<std::vector<data::Batch>()>& make_batches);

}  // namespace colossal::plan
