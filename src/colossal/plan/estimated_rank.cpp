#include "colossal/plan/estimated_rank.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "colossal/job/pipeline_config.h"
#include "colossal/parallel/pipeline/in_flight.h"

namespace colossal::plan {
namespace {

using parallel::pipeline::Action;

// What a micro-batch holds between its input gradients and its weight gradients, as a share of its
// activations.
constexpr double kKeptForWeights = 0.75;

std::vector<int64_t> blocks_of_stages(const Job& job) {
  const Strategy& strategy = job.strategy;
  if (strategy.stage_blocks.empty()) return {job.model.facts.layers};
  return strategy.stage_blocks;
}

// Whether the settings that refer to single blocks are absent, and the blocks are alike.
bool has_equal_blocks(const Job& job) {
  const models::TransformerConfig& model = job.model.transformer;
  const int64_t recomputed = job.recompute.full_blocks;
  return !job.model.text_tower && model.attention.size() == 1 &&
         model.layers_with_experts.empty() && !job.model.adapter &&
         job.strategy.expert_rows.empty() &&
         (recomputed == 0 || recomputed == memory::Recompute::kAllBlocks);
}

// Returns the job with this number of blocks in each stage.
Job with_blocks(Job job, int64_t of_stage) {
  const auto stages = std::ssize(blocks_of_stages(job));
  job.model.transformer.layers = job.model.facts.layers = stages * of_stage;
  if (!job.strategy.stage_blocks.empty()) job.strategy.stage_blocks.assign(stages, of_stage);
  return job;
}

// Adds to `few` as many of the differences between `more` and `few` as `times` says.
double extrapolated(double few, double more, double times) {
  return few + times * (more - few);
}
int64_t extrapolated(int64_t few, int64_t more, double times) {
  return static_cast<int64_t>(
      extrapolated(static_cast<double>(few), static_cast<double>(more), times));
}
memory::BytesByKind extrapolated(memory::BytesByKind few, const memory::BytesByKind& more,
                                 double times) {
  for (size_t kind = 0; kind < few.bytes.size(); ++kind) {
    few.bytes[kind] = extrapolated(few.bytes[kind], more.bytes[kind], times);
  }
  return few;
}
TimeShares extrapolated(const TimeShares& few, const TimeShares& more, double times) {
  TimeShares sum = few.scaled(1 - times);
  sum += more.scaled(times);
  return sum;
}

auto key_of(const Action& action) {
  return std::tuple(action.stage, action.micro_batch, action.kind);
}

// Returns nullopt if the two have different actions: schedules may depend on the costs of stages.
// times: by stage; rest: of the update.
std::optional<RankSeconds> extrapolated(RankSeconds few, const RankSeconds& more,
                                        const std::vector<double>& times, double rest) {
  std::map<decltype(key_of({})), const RankSeconds::OfAction*> others;
  for (const RankSeconds::OfAction& made : more.actions) others[key_of(made.action)] = &made;
  if (few.actions.size() != more.actions.size()) return std::nullopt;
  for (RankSeconds::OfAction& made : few.actions) {
    const auto other = others.find(key_of(made.action));
    if (other == others.end() || other->second->times != made.times) return std::nullopt;
    made.seconds = extrapolated(made.seconds, other->second->seconds, times.at(made.action.stage));
  }
  few.rest = extrapolated(few.rest, more.rest, rest);
  return few;
}

// Returns the micro-batches, times stages, that each rank of the pipeline holds at most.
std::vector<double> most_held(const Job& job, int64_t micro_batches) {
  const auto schedule = training_schedule(
      job.strategy, stage_costs(job.strategy, job.model.facts, job.sequence_length), micro_batches);
  const std::vector<parallel::pipeline::StageMemory> one(
      job.strategy.num_stages(), {.activations = 1, .weight_gradients = kKeptForWeights});
  return parallel::pipeline::peak_bytes_of_ranks(schedule, one);
}

// Adds the activations that ranks of a pipeline hold of the micro-batches that were not recorded.
void add_micro_batches(const Job& job, std::vector<RankPlan>& plans) {
  const int64_t all = job.num_micro_batches();
  if (job.strategy.pp == 1 || all <= kFewestMicroBatches) return;
  // With more micro-batches, ranks hold no more of them.
  const int64_t stages = job.strategy.num_stages();
  const std::vector<double> held = most_held(job, std::min(all, 2 * stages + all % stages)),
                            recorded = most_held(job, kFewestMicroBatches);
  for (RankPlan& plan : plans) {
    const int place = plan.rank / (job.strategy.world_size() / job.strategy.pp);
    const double more = held[place] - recorded[place];
    plan.memory_at_peak[memory::MemoryKind::activations] +=
        static_cast<int64_t>(more * static_cast<double>(plan.activation_bytes));
  }
}

// Leaves out the micro-batches that are not recorded.
RankPlan estimated_rank(const Job& job, int rank, const ClusterSpecification& cluster) {
  const std::vector<int64_t> blocks = blocks_of_stages(job);
  if (!has_equal_blocks(job) || std::ranges::min(blocks) <= 2 * kFewBlocks) {
    return recorded_rank(job, rank, &cluster, kFewestMicroBatches);
  }
  const RankPlan few =
      recorded_rank(with_blocks(job, kFewBlocks), rank, &cluster, kFewestMicroBatches);
  const RankPlan more =
      recorded_rank(with_blocks(job, 2 * kFewBlocks), rank, &cluster, kFewestMicroBatches);
  std::vector<double> times;
  double of_rank = 0;
  int stages_here = 0;
  const int apart = job.strategy.world_size() / job.strategy.pp;
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    times.push_back(static_cast<double>(blocks[stage] - kFewBlocks) / kFewBlocks);
    if (job.strategy.stage_rank(static_cast<int>(stage)) != rank / apart) continue;
    of_rank += times.back();
    ++stages_here;
  }
  of_rank /= stages_here;
  RankPlan plan{.rank = rank};
  plan.seconds = extrapolated(*few.seconds, *more.seconds, times, of_rank);
  if (!plan.seconds) return recorded_rank(job, rank, &cluster, kFewestMicroBatches);
  plan.activation_bytes = extrapolated(few.activation_bytes, more.activation_bytes, of_rank);
  plan.memory_at_peak = extrapolated(few.memory_at_peak, more.memory_at_peak, of_rank);
  for (const auto& [tier, bytes] : few.at_rest) {
    plan.at_rest[tier] = extrapolated(bytes, more.at_rest.at(tier), of_rank);
  }
  for (const auto& [key, bytes] : few.sent) {
    const auto other = more.sent.find(key);
    plan.sent[key] = other == more.sent.end() ? bytes : extrapolated(bytes, other->second, of_rank);
  }
  return plan;
}

}  // namespace

std::vector<RankPlan> estimated_ranks(const Job& job, const std::vector<int>& ranks,
                                      const ClusterSpecification& cluster) {
  std::vector<RankPlan> plans;
  for (const int rank : ranks) plans.push_back(estimated_rank(job, rank, cluster));
  add_micro_batches(job, plans);
  return plans;
}

}  // namespace colossal::plan
