#include "colossal/plan/recorded_step.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <numeric>

#include "colossal/booster/order_recording.h"
#include "colossal/booster/run_monitor.h"
#include "colossal/models/families.h"
#include "colossal/ops/meta_kernels.h"
#include "colossal/parallel/builder.h"
#include "colossal/plan/recorder.h"

namespace colossal::plan {
namespace {

// Micro-batches that run one after the other are alike between the first and the last. Those of a
// pipeline are in flight together, as its schedule has them: all of them are recorded.
int64_t num_recorded(const Job& job) {
  constexpr int64_t kEnough = 4;
  const int64_t all = job.num_micro_batches();
  return job.strategy.pp > 1 ? all : std::min(all, kEnough);
}

at::Tensor meta_tokens(int64_t sequences, const Job& job) {
  return at::empty({sequences, job.sequence_length},
                   at::TensorOptions().dtype(at::kLong).device(at::kMeta));
}

// Of a step the first micro-batches, and the last one, which may be short.
std::vector<data::Batch> recorded_batches(const Job& job) {
  std::vector<data::Batch> batches;
  const int64_t all = job.num_micro_batches(), recorded = num_recorded(job);
  for (int64_t i = 0; i < recorded; ++i) {
    const bool last = i + 1 == recorded;
    const int64_t sequences = last ? job.share - (all - 1) * job.micro_batch : job.micro_batch;
    data::Batch& batch = batches.emplace_back(
        meta_tokens(sequences, job), meta_tokens(sequences, job), std::vector<int64_t>(sequences));
    std::iota(batch.sample_ids.begin(), batch.sample_ids.end(), int64_t{0});
    if (job.config.data.separate_documents) batch.documents = meta_tokens(sequences, job);
  }
  return batches;
}

// What RunMonitor gathers after each step.
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
  const EngineConfig config = ordered_engine_config(job, context.rank());
  Recorder recorder(world.ledger(), device.type());
  {
    const auto build = parallel::make_builder(context, models::sharding(job.model));
    const auto model = models::build_model(job.model, *build);
    StagedModel stages = pipelined(*model, source_of(job), context);
    const auto kept = [&] { return recorder.memory().live()[memory::MemoryKind::activations]; };
    Engine* running = nullptr;
    const auto run = stages.run;
    stages.run = [&](int stage, const StageState& state, const data::Batch& batch,
                     const nn::StepContext& step_context) {
      const int64_t kept_before = kept();  // tokens of earlier micro-batches
      step.micro_batches.push_back({.operators = recorder.num_operators(),
                                    .collectives = recorder.num_collectives(),
                                    .tier_traffic = running->chunks().tier_traffic()});
      StageResult result = run(stage, state, batch, step_context);
      step.micro_batches.back().activation_bytes = kept() - kept_before;
      return result;
    };
    Engine engine(build->parameters(), stages, context, config);
    running = &engine;
    for (const nn::ParameterHandle& parameter : build->parameters()) {
      if (engine.chunks().is_here(*parameter)) step.parameters += parameter->local_numel();
    }
    engine.step(make_batches());
    engine.chunks().synchronize();
    gather_figures(context);
    step.tier_traffic = engine.chunks().tier_traffic();
    for (const memory::Tier tier : memory::kTiersOffDevice) {
      step.at_rest[tier] = engine.chunks().at_rest(tier);
    }
  }
  step.recording = recorder.take();
  return step;
}

RecordedStep record_step(const Job& job, int rank) {
  ops::register_meta_kernels();
  const auto world = comm::dry_world(rank, job.strategy.world_size());
  const int64_t unrecorded = job.num_micro_batches() - num_recorded(job);
  at::Tensor unrecorded_tokens;  // which a step holds as well
  RecordedStep step = record_step(job, *world, at::kMeta, [&] {
    const int64_t tensors = job.config.data.separate_documents ? 3 : 2;
    unrecorded_tokens = meta_tokens(tensors * unrecorded * job.micro_batch, job);
    return recorded_batches(job);
  });
  step.middle_repeats = 1 + unrecorded;
  return step;
}

}  // namespace colossal::plan
