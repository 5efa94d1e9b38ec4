// Records one training step of one rank: everything from which the plan of the rank follows
// (plan_of(), plan.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/plan/recording.h"

namespace colossal::plan {

// The state of the recording at the end of an action of the schedule (the forward or backward pass
// of a micro-batch through a stage). What was recorded since the previous mark belongs to the
// action's micro-batch.
struct ActionMark {
  int64_t micro_batch = 0;                       // index of the action's micro-batch
  int64_t operators = 0, collectives = 0;        // numbers of elements recorded so far
  memory::TierPools::Traffic tier_traffic = {};  // bytes moved between tiers so far
};

struct RecordedStep {
  Recording recording;
  std::vector<ActionMark> actions;  // one per action of this rank, in order
  // For each forward pass of a micro-batch through a stage of this rank, in order: the bytes that
  // it keeps for the backward pass.
  std::vector<int64_t> activation_bytes;
  // A dry run records only some micro-batches of a step. The first micro-batch writes the gradients
  // and the last micro-batch reduces them; the micro-batches between them cost the same. Without a
  // pipeline, at most four micro-batches are recorded. With a pipeline, as many are recorded as are
  // needed for each rank to reach the same peak memory as with all micro-batches. The recorded
  // micro-batch with index `middle` stands for `middle_repeats` micro-batches of the step, itself
  // included.
  int64_t middle = 0;
  int64_t middle_repeats = 1;
  int64_t parameters = 0;  // number of parameter elements that the rank holds
  // Bytes moved between tiers in the recorded micro-batches and the update.
  memory::TierPools::Traffic tier_traffic;
  // Bytes that each tier other than the device stores, by kind, at the tier's peak.
  std::map<memory::Tier, memory::BytesByKind> at_rest;
};

// Records a dry run of a step of rank `rank` of the job. A dry run executes the code of a real step
// on meta tensors, with communication groups that send nothing; it allocates no memory for tensors.
// The scratch memory of kernels is counted for at::get_num_threads() threads.
RecordedStep record_step(const Job& job, int rank);

// Records a step of this rank of `world` with all its micro-batches, real or dry; tests compare the
// two. device: the rank's device for a real step, or meta for a dry run. make_batches: returns the
// micro-batches of the step; memory that it allocates is counted. The result has middle_repeats =
// 1. Collective.
RecordedStep record_step(const Job& job, comm::World& world, at::Device device,
                         const std::function<std::vector<data::Batch>()>& make_batches);

}  // namespace colossal::plan
