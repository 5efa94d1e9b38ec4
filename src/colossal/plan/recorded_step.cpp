#include "colossal/plan/recorded_step.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "colossal/engine/dry_loss.h"
#include "colossal/engine/engine.h"
#include "colossal/engine/order_recording.h"
#include "colossal/engine/state_shapes.h"
#include "colossal/job/batch_specification.h"
#include "colossal/job/pipeline_config.h"
#include "colossal/models/assembly.h"
#include "colossal/models/families.h"
#include "colossal/ops/fallback/meta_kernels.h"
#include "colossal/parallel/pipeline/in_flight.h"
#include "colossal/parallel/pipeline/schedules.h"
#include "colossal/plan/recorder.h"
#include "colossal/training/run_monitor.h"

namespace colossal::plan {
namespace {

// A pipeline has several micro-batches in flight. Returns a number of micro-batches with which each
// rank goes through the same states of held memory as with all of them. A schedule from a file
// requires all.
int64_t num_recorded_of_pipeline(const Job& job) {
  const int64_t all = job.num_micro_batches(), stages = job.strategy.num_stages();
  if (!parallel::pipeline::find_schedule(job.strategy.pp_schedule)) return all;
  const auto costs = stage_costs(job.strategy, job.model.facts, job.sequence_length);
  const auto held = [&](int64_t micro_batches) {
    return held_states_of_ranks(training_schedule(job.strategy, costs, micro_batches));
  };
  const auto held_of_all = held(all);
  // Orders with several stages per rank advance by as many micro-batches as there are ranks, so the
  // remainder must be that of all. An order that depends on costs may have different states for
  // every number: then all are recorded.
  const int64_t most = std::min(all, 8 * stages);
  for (int64_t some = 2 * stages + 2 + (all - 2) % stages; some < most; some += stages) {
    if (held(some) == held_of_all) return some;
  }
  return all;
}

// Without a pipeline the micro-batches between the first and the last are alike.
int64_t num_recorded(const Job& job, std::optional<int64_t> most) {
  if (most) return std::min(job.num_micro_batches(), *most);
  return job.strategy.pp > 1 ? num_recorded_of_pipeline(job)
                             : std::min(job.num_micro_batches(), kFewestMicroBatches);
}

// Returns the first micro-batches of a step, and the last one, which may be smaller.
std::vector<data::Batch> recorded_batches(const Job& job, int64_t recorded) {
  std::vector<data::Batch> batches;
  const int64_t all = job.num_micro_batches();
  for (int64_t i = 0; i < recorded; ++i) {
    const bool last = i + 1 == recorded;
    const int64_t sequences = last ? job.share - (all - 1) * job.micro_batch : job.micro_batch;
    batches.push_back(batch_specification(job).make(sequences, at::kMeta));
  }
  return batches;
}

// Sends what RunMonitor gathers after each step.
void gather_figures(const ParallelContext& context) {
  const comm::Group& group = context.world_group();
  const int64_t figures = num_rank_figures(context);
  const at::Tensor all = at::zeros({group.size() * figures},
                                   at::TensorOptions().dtype(at::kLong).device(context.device()));
  comm::all_gather(all, std::vector<int64_t>(group.size(), figures), group, comm::Reason::metrics);
}

}  // namespace

RecordedStep record_step(const Job& job, comm::World& world, at::Device device,
                         const std::function<std::vector<data::Batch>()>& make_batches) {
  const ParallelContext context(world, job.strategy, device);
  RecordedStep step;
  DryLoss loss = dry_loss(job, context);
  EngineConfig config = ordered_engine_config(job, context.rank());
  config.metrics = std::move(loss.metrics);
  Recorder recorder(world.ledger(), device.type());
  {
    const models::Assembly assembly = models::assemble(job.model, context);
    StagedModel stages =
        pipelined(*assembly.model, model_source_of(job), context, std::move(loss.loss));
    const auto kept = [&] { return recorder.memory().live()[memory::MemoryKind::activations]; };
    const auto run = stages.run;
    stages.run = [&](int stage, const StageState& state, const data::Batch& batch,
                     const nn::StepContext& step_context) {
      const int64_t kept_before = kept();  // of earlier micro-batches
      StageResult result = run(stage, state, batch, step_context);
      step.activation_bytes.push_back(kept() - kept_before);
      return result;
    };
    Engine engine(assembly.parameters(), stages, context, config);
    engine.after_each_action([&](const parallel::pipeline::Action& action) {
      step.actions.push_back({.action = action,
                              .operators = recorder.num_operators(),
                              .collectives = recorder.num_collectives(),
                              .tier_traffic = engine.chunks().tier_traffic()});
    });
    for (const nn::ParameterHandle& parameter : assembly.parameters()) {
      if (engine.chunks().is_here(*parameter)) step.parameters += parameter->local_numel();
    }
    engine.step(make_batches());
    engine.chunks().synchronize();
    gather_figures(context);
    step.state = engine.chunks().state_bytes(memory::Tier::device);
    step.update_bytes = engine.chunks().update_bytes();
    step.tier_traffic = engine.chunks().tier_traffic();
    for (const memory::Tier tier : memory::kTiersOffDevice) {
      step.at_rest[tier] = engine.chunks().at_rest(tier);
    }
  }
  step.recording = recorder.take();
  return step;
}

RecordedStep record_step(const Job& job, int rank, std::optional<int64_t> most_micro_batches) {
  ops::register_meta_kernels();
  const auto world = comm::dry_world(rank, job.strategy.world_size());
  const int64_t recorded = num_recorded(job, most_micro_batches);
  const int64_t unrecorded = job.num_micro_batches() - recorded;
  data::Batch held;  // a step also holds the other micro-batches
  RecordedStep step = record_step(job, *world, at::kMeta, [&] {
    held = batch_specification(job).make(unrecorded * job.micro_batch, at::kMeta);
    return recorded_batches(job, recorded);
  });
  // Without a pipeline the second micro-batch repeats. The first differs, because it writes the
  // gradients instead of adding to them.
  step.middle = job.strategy.pp > 1 ? recorded / 2 : 1;
  step.middle_repeats = 1 + unrecorded;
  return step;
}

}  // namespace colossal::plan
