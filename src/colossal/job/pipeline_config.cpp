#include "colossal/job/pipeline_config.h"

#include <algorithm>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/parallel/pipeline/schedule_file.h"
#include "colossal/parallel/pipeline/schedules.h"
#include "colossal/parallel/pipeline/stage_cut.h"

namespace colossal {
namespace {

using parallel::pipeline::BuiltInSchedule;
using parallel::pipeline::StageCosts;

// Throws ConfigError for settings of pipelines, which have no meaning without a pipeline.
void refuse_settings_of_pipelines(const ParallelConfig& config) {
  const auto refuse = [](const char* key) {
    throw ConfigError(fmt::format(
        "parallel.{} is for pipelines, and parallel.pp = 1; use pp = 2 or more, or leave {} out",
        key, key));
  };
  if (config.pp_schedule) refuse("pp_schedule");
  if (config.pp_chunks) refuse("pp_chunks");
  if (config.pp_layers) refuse("pp_layers");
}

// Rows of the table of a head for tokens; 0: the model has none that costs much.
double head_weights(const models::ModelFacts& facts) {
  if (facts.text_layers > 0) return 0;
  return static_cast<double>(facts.hidden) * static_cast<double>(facts.vocabulary);
}

// Returns a block's costs in FLOPs per token (of an image, if the model has a tower for texts):
// products with its weights, and attention, which has no weights. Backward computes one product for
// the gradient of the input and one for the weights.
StageCosts costs_of_block(const models::ModelFacts& facts, int64_t block, int64_t sequence_length) {
  const int64_t others = facts.layers - facts.text_layers;
  if (block >= others) {
    const double third =
        facts.flops_of_text / 3 / static_cast<double>(facts.text_layers * sequence_length);
    return {.forward = third, .input_gradient = third, .weight_gradient = third};
  }
  const double weights = (static_cast<double>(facts.product_weights) - head_weights(facts)) /
                         static_cast<double>(others);
  const auto attention =
      static_cast<double>(facts.heads * (facts.head_size + facts.value_size) * sequence_length);
  return {.forward = 2 * weights + attention,
          .input_gradient = 2 * weights + 2 * attention,
          .weight_gradient = 2 * weights};
}

// Returns the head's costs in FLOPs per token. The loss computes the gradient of its input in the
// forward pass (ops/loss/linear_cross_entropy.h).
StageCosts head_costs(const models::ModelFacts& facts) {
  const double weights = head_weights(facts);
  return {.forward = 4 * weights, .input_gradient = 0, .weight_gradient = 2 * weights};
}

std::vector<int64_t> cut_blocks(const ParallelConfig& config, const models::ModelFacts& facts,
                                int64_t sequence_length, int num_stages) {
  std::vector<int> blocks;
  if (config.pp_layers) {
    blocks.assign(config.pp_layers->begin(), config.pp_layers->end());
    parallel::pipeline::check_stage_cut(blocks, static_cast<int>(facts.layers), num_stages);
  } else {
    std::vector<double> costs;
    for (int64_t block = 0; block < facts.layers; ++block) {
      costs.push_back(costs_of_block(facts, block, sequence_length).total());
    }
    blocks = parallel::pipeline::cut_stages(costs, /*embedding_cost=*/0, head_costs(facts).total(),
                                            num_stages);
  }
  return {blocks.begin(), blocks.end()};
}

}  // namespace

void resolve_pipeline(const ParallelConfig& config, const models::ModelFacts& facts,
                      int64_t sequence_length, int64_t micro_batches, Strategy& strategy) {
  if (strategy.pp == 1) return refuse_settings_of_pipelines(config);
  strategy.pp_schedule = config.pp_schedule.value_or("1f1b");
  const BuiltInSchedule* const built_in = parallel::pipeline::find_schedule(strategy.pp_schedule);
  strategy.pp_chunks =
      static_cast<int>(config.pp_chunks.value_or(built_in ? built_in->default_chunks : 1));
  const int64_t stages = int64_t{strategy.pp} * strategy.pp_chunks;
  if (stages > facts.layers) {
    const int64_t fitting = std::max<int64_t>(1, facts.layers / strategy.pp_chunks);
    throw ConfigError(fmt::format(
        "parallel.pp = {} with {} stage{} a rank makes {} stages, and the model has {} layers; use "
        "pp = {} or less{}",
        strategy.pp, strategy.pp_chunks, strategy.pp_chunks > 1 ? "s" : "", stages, facts.layers,
        fitting,
        strategy.pp_chunks > 1 ? ", or pp_schedule = \"1f1b\" with one stage a rank" : ""));
  }
  strategy.stage_blocks = cut_blocks(config, facts, sequence_length, static_cast<int>(stages));
  strategy.stage_ranks =
      training_schedule(strategy, stage_costs(strategy, facts, sequence_length), micro_batches)
          .rank_of_stage;
}

parallel::pipeline::Schedule training_schedule(const Strategy& strategy,
                                               const parallel::pipeline::Costs& stage_costs,
                                               int64_t micro_batches) {
  return parallel::pipeline::chosen_schedule(
      strategy.pp_schedule, {strategy.pp, strategy.pp_chunks, static_cast<int>(micro_batches)},
      stage_costs);
}

parallel::pipeline::Costs stage_costs(const Strategy& strategy, const models::ModelFacts& facts,
                                      int64_t sequence_length) {
  parallel::pipeline::Costs costs;
  const int last = strategy.num_stages() - 1;
  for (int stage = 0; stage <= last; ++stage) {
    StageCosts sum = stage == last ? head_costs(facts) : StageCosts{0, 0, 0};
    const Range blocks = strategy.blocks_of_stage(stage, facts.layers);
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      const StageCosts more = costs_of_block(facts, block, sequence_length);
      sum.forward += more.forward;
      sum.input_gradient += more.input_gradient;
      sum.weight_gradient += more.weight_gradient;
    }
    costs.stages.push_back(sum);
  }
  return costs;
}

int64_t default_micro_batch(int64_t share, const Strategy& strategy) {
  if (strategy.pp == 1) return share;
  int64_t micro_batches = std::min<int64_t>(share, 4 * strategy.pp);
  while (share % micro_batches != 0) --micro_batches;
  return share / micro_batches;
}

}  // namespace colossal
