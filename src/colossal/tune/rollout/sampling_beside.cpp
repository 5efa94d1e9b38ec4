#include "colossal/tune/rollout/sampling_beside.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "colossal/comm/world.h"
#include "colossal/engine/meta_parameters.h"
#include "colossal/memory/memory_count.h"
#include "colossal/models/assembly.h"
#include "colossal/ops/fallback/meta_kernels.h"
#include "colossal/ops/product/few_rows.h"
#include "colossal/serve/engine_core.h"
#include "colossal/tune/rewards/rewards.h"
#include "colossal/tune/rollout/begun_completions.h"
#include "colossal/tune/rollout/rollout.h"

namespace colossal::tune {
namespace {

// Returns the most completions that are sampled at once on one data rank (dp x sp).
int64_t most_of_rank(const TuneConfig& config, const Job& job) {
  const int64_t generation = job.config.train.global_batch * config.steps_per_generation;
  const int64_t all = generation * std::max<int64_t>(1, config.max_staleness);
  const int64_t ranks = int64_t{job.strategy.dp} * job.strategy.sp;
  return (all + ranks - 1) / ranks;
}

// Returns the strategy with a single stage, which has all blocks.
Strategy without_pipeline(Strategy strategy) {
  const Strategy alone;
  strategy.pp = alone.pp;
  strategy.pp_chunks = alone.pp_chunks;
  strategy.pp_schedule = alone.pp_schedule;
  strategy.stage_ranks = {};
  strategy.stage_blocks = {};
  return strategy;
}

// Returns the most tokens that a completion has, with its prompt, when its sampling continues
// during an update.
int64_t longest_beginning(const TuneConfig& config, const Job& job) {
  const int64_t parts = BegunCompletions::parts(
      {.max_staleness = std::max<int64_t>(1, config.max_staleness),
       .updates = config.updates_per_generation(),
       .waits_for_rewards = std::ranges::any_of(config.reward, is_external)});
  const int64_t most = config.max_completion_length;
  return job.sequence_length - most + (most * (parts - 1) + parts - 1) / parts;
}

// Returns the number of passes among which running sequences are divided: with one stage per rank,
// each rank of a pipeline works on a pass of its own.
int64_t passes_at_once(const Strategy& strategy) {
  return strategy.num_stages() == strategy.pp ? strategy.pp : 1;
}

// Returns a pass with as many sequences as a pass can have. The first sequences have the maximum
// length and read one token each. The last ones read their beginnings, as far as the pass has room.
serve::StepPlan fullest_pass(const serve::EngineOptions& options, int64_t passes,
                             int64_t longest_beginning) {
  // The last token of a completion is never read.
  const int64_t length = std::max<int64_t>(1, options.max_model_len - 1);
  const int64_t begun = std::clamp<int64_t>(longest_beginning, 1, length);
  const int64_t most = options.max_batch_tokens;
  const int64_t sequences = (options.max_num_seqs + passes - 1) / passes;
  const int64_t pages = (length + options.page_size - 1) / options.page_size;
  const int64_t reading = std::min(sequences, (most + begun - 1) / begun);
  serve::StepPlan plan;
  for (int64_t i = 0; i < sequences; ++i) {
    const bool reads = i >= sequences - reading;
    const int64_t end = reads ? begun : length;
    const int64_t count = reads ? std::min(begun, most - std::ssize(plan.tokens)) : 1;
    if (count < std::min<int64_t>(end, 2) && reads) break;
    serve::StepPlan::Chunk chunk{
        .tokens = {.positions = {end - count, end}, .pages = std::vector<int64_t>(pages)},
        .prompt = end};
    std::iota(chunk.tokens.pages.begin(), chunk.tokens.pages.end(), i * pages);
    plan.chunks.push_back(std::move(chunk));
    plan.tokens.resize(plan.tokens.size() + count, 0);
    plan.wanted_logits.push_back(std::ssize(plan.tokens) - 1);
  }
  return plan;
}

// Runs a pass on meta. Returns the most bytes of tensors that it holds, pages included.
int64_t bytes_of_pass(const Job& job, const Strategy& strategy, const serve::EngineOptions& options,
                      const serve::StepPlan& plan) {
  ops::register_meta_kernels();
  const auto world = comm::dry_world(0, strategy.world_size());
  const ParallelContext context(*world, strategy, at::kMeta);
  memory::MemoryCount count(world->ledger(), c10::kMeta);
  const models::Assembly assembly = models::assemble(job.model, context);
  make_meta_tensors(assembly.parameters(), job.precision.compute);
  const int64_t before = count.ledger().live().total();
  count.ledger().reset_peak();
  const at::NoGradGuard no_grad;
  std::optional<ops::BatchInvariantProducts> invariant;
  if (options.batch_invariant) invariant.emplace();
  const models::ModelFacts& facts = job.model.facts;
  const bool shared = strategy.tp * strategy.expert_ranks() > 1;
  serve::ForwardPass pass(
      *assembly.model, facts,
      {.layers = facts.layers,
       .pages = options.cache_bytes / serve::page_bytes(options, facts, strategy),
       .page_size = options.page_size,
       .each_token_alone = options.batch_invariant},
      at::kMeta, shared ? &context : nullptr);
  pass.start(plan);
  return count.ledger().at_peak().total() - before;
}

}  // namespace

std::string reason_not_to_overlap(const Job& job, c10::Device device) {
  if (job.strategy.zero == 3)
    return "with parallel.zero = 3 a rank has the weights only while it uses them";
  if (!job.tiers.parameters.all_on_device()) {
    return "with memory.offload_parameters the weights are on the device only while they are used";
  }
  if (!device.is_cpu()) return "on a GPU both would use one stream";
  return "";
}

bool samples_during_updates(const Tuning& tuning, const Job& job, c10::Device device) {
  const TuneConfig& config = tuning.config;
  return tuning.method->is_online() && config.max_staleness > 0 && config.overlap_sampling &&
         reason_not_to_overlap(job, device).empty();
}

int64_t sampler_bytes(const TuneConfig& config, const Job& job) {
  const RolloutOptions options{
      .sampling = {}, .end_tokens = {}, .batch_invariant = config.batch_invariant};
  const auto options_for = [&](const Strategy& strategy) {
    return sampler_options({.facts = job.model.facts,
                            .strategy = strategy,
                            .type = job.precision.compute,
                            .completions = most_of_rank(config, job),
                            .longest = job.sequence_length},
                           options);
  };
  const Strategy alone = without_pipeline(job.strategy);
  const serve::EngineOptions of_stage = options_for(job.strategy), of_all = options_for(alone);
  const serve::StepPlan plan =
      fullest_pass(of_all, passes_at_once(job.strategy), longest_beginning(config, job));
  return of_stage.cache_bytes + bytes_of_pass(job, alone, of_all, plan) - of_all.cache_bytes;
}

}  // namespace colossal::tune
