// Records one training step of one rank: everything from which the plan of the rank follows
// (plan_of(), plan.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/job/job.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/parallel/pipeline/schedule.h"
#include "colossal/plan/recording.h"

namespace colossal::plan {

// The state of the recording at the end of an action of the pipeline schedule: a computation of a
// micro-batch in a stage, or a send or receive. What was recorded since the previous action's mark
// belongs to the action's micro-batch.
struct ActionMark {
  // The action; its micro-batch is an index among those that are recorded.
  parallel::pipeline::Action action;
  // Lengths of Recording::operators and Recording::collectives so far.
  int64_t operators = 0, collectives = 0;
  memory::TierPools::Traffic tier_traffic = {};  // bytes moved between tiers so far
};

struct RecordedStep {
  Recording recording;
  std::vector<ActionMark> actions;  // one per action of this rank, in order
  // For each forward pass of a micro-batch through a stage of this rank, in order: the bytes that
  // it keeps for the backward pass.
  std::vector<int64_t> activation_bytes;
  // record_step(job, rank) may record only some micro-batches of the step. The first micro-batch
  // writes the gradients and the last micro-batch reduces them; the micro-batches between them cost
  // the same. Without a pipeline, at most four micro-batches are recorded. With a pipeline, as many
  // are recorded as are needed for each rank to reach the same peak memory as with all
  // micro-batches. The recorded micro-batch with index `middle` stands for `middle_repeats`
  // micro-batches of the step, itself included. With middle_repeats = 1 all are recorded, and
  // `middle` has no meaning.
  int64_t middle = 0;
  int64_t middle_repeats = 1;
  // Number of parameter elements in the rank's tensor-parallel shards, before ZeRO divides them.
  int64_t parameters = 0;
  // What the rank stores on the device between uses.
  memory::ChunkEngine::StateBytes state;
  // Bytes of masters, optimizer state, gradients and weights that the update reads and writes.
  int64_t update_bytes = 0;
  // Bytes moved between tiers in the recorded micro-batches and the update.
  memory::TierPools::Traffic tier_traffic;
  // For each tier other than the device: the bytes by kind that it stores, at the moment of the
  // step when their sum is largest. Temporary copies during transfers and the update do not count.
  std::map<memory::Tier, memory::BytesByKind> at_rest;
};

// Records a dry run of a step of rank `rank` of the job, with the micro-batches that the comment of
// RecordedStep::middle describes. A dry run executes the code of a real step on meta tensors, with
// communication groups that send nothing; it allocates no memory for tensors. The scratch memory of
// kernels is counted for at::get_num_threads() threads. most_micro_batches: at least 4. If the step
// has more, only this many are recorded, even if the rank then reaches a lower peak memory in a
// pipeline; their times are those of the step.
inline constexpr int64_t kFewestMicroBatches = 4;
RecordedStep record_step(const Job& job, int rank,
                         std::optional<int64_t> most_micro_batches = std::nullopt);

// Records a step of this rank of `world` with all its micro-batches, real or dry; tests compare the
// two. device: the rank's device for a real step, or meta for a dry run. make_batches: returns the
// micro-batches of the step; memory that it allocates is counted. The result has middle_repeats =
// 1. Collective.
RecordedStep record_step(const Job& job, comm::World& world, at::Device device,
                         const std::function<std::vector<data::Batch>()>& make_batches);

}  // namespace colossal::plan
