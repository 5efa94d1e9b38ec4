#include "colossal/job/parallel_config.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/job/pipeline_config.h"
#include "colossal/layout/heads.h"

namespace colossal {
namespace {

constexpr int kMostRanksOfAxis = 1 << 20;

int size_of(const char* key, int64_t value) {
  if (value < 1 || value > kMostRanksOfAxis) {
    throw ConfigError(
        fmt::format("parallel.{} = {}: must be from 1 to {}", key, value, kMostRanksOfAxis));
  }
  return static_cast<int>(value);
}

TensorMode tensor_mode_of(const std::string& name) {
  for (TensorMode mode : {TensorMode::two_d, TensorMode::two_and_half_d, TensorMode::three_d}) {
    if (name == tensor_mode_name(mode)) return mode;
  }
  return TensorMode::one_d;
}

void resolve_tensor_mode(const ParallelConfig& config, Strategy& strategy) {
  strategy.tensor_mode = tensor_mode_of(config.tp_mode);
  const bool one_d = strategy.tensor_mode == TensorMode::one_d;
  if (!one_d && config.tp_sequence.value_or(false)) {
    throw LayoutError(
        fmt::format("parallel.tp_sequence = true applies only to parallel.tp_mode = \"1d\"; with "
                    "\"{}\" activations are always sharded, so leave tp_sequence out",
                    config.tp_mode));
  }
  strategy.tp_sequence = config.tp_sequence.value_or(one_d);
  if (config.tp_depth) {
    strategy.tp_depth = size_of("tp_depth", *config.tp_depth);
  } else if (strategy.tensor_mode == TensorMode::two_and_half_d) {
    const auto fits = [&] { return strategy.tp_of_side(strategy.tensor_side()) == strategy.tp; };
    while (!fits()) ++strategy.tp_depth;  // ends at the latest with squares of one rank
  }
}

void describe_tensor_depth(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.tp_depth", &parallel.tp_depth,
             "With tp_mode 2.5d: number of q x q squares of ranks, so that tp = q x q x tp_depth.",
             {.minimum = 1, .maximum = kMostRanksOfAxis, .unset = "the smallest that fits tp"});
}

}  // namespace

Strategy resolve_parallel(const ParallelConfig& config, int ranks) {
  Strategy strategy;
  strategy.pp = size_of("pp", config.pp);
  strategy.sp = size_of("sp", config.sp);
  strategy.tp = size_of("tp", config.tp);
  strategy.ep = size_of("ep", config.ep);
  strategy.expert_tp = size_of("expert_tp", config.expert_tp);
  strategy.expert_copies = config.expert_copies;
  strategy.expert_copy_rows = config.expert_copy_rows;
  resolve_tensor_mode(config, strategy);
  strategy.sequence_mode = config.sp_mode == "ulysses" ? SequenceMode::ulysses : SequenceMode::ring;
  if (config.dp) strategy.dp = size_of("dp", *config.dp);
  const int64_t zero = config.zero.value_or(ranks / (strategy.tp * strategy.pp) > 1 ? 1 : 0);
  if (zero < 0 || zero > 3) {
    throw LayoutError(
        fmt::format("parallel.zero = {}: must be 0 (nothing sharded), 1 (optimizer state), 2 (also "
                    "gradients) or 3 (also weights)",
                    zero));
  }
  strategy.zero = static_cast<int>(zero);
  if (const auto* group = std::get_if<int64_t>(&config.zero_group)) {
    strategy.zero_group = size_of("zero_group", *group);
  }
  return resolve_strategy(strategy, config.dp.has_value(), ranks);
}

void resolve_heads(const models::ModelFacts& facts, Strategy& strategy) {
  const int side = strategy.head_ranks();
  if (facts.heads < side) {
    const bool one_d = strategy.tensor_mode == TensorMode::one_d;
    const std::string mode =
        one_d ? "" : fmt::format(", tp_mode = \"{}\"", tensor_mode_name(strategy.tensor_mode));
    throw LayoutError(fmt::format("parallel.tp = {}{}: the model has {} heads for {} {}",
                                  strategy.tp, mode, facts.heads, side,
                                  one_d ? "ranks" : "columns of ranks"));
  }
  if (strategy.sequence_mode == SequenceMode::ulysses && facts.heads / side < strategy.sp) {
    throw LayoutError(fmt::format(
        "parallel.sp_mode = \"ulysses\" with parallel.sp = {}: a rank of tp has {} heads, which {} "
        "ranks of sp cannot share",
        strategy.sp, facts.heads / side, strategy.sp));
  }
  strategy.key_value_replicas =
      key_value_replicas(facts.heads, facts.kv_heads, strategy.head_ranks());
}

void require_experts(const Strategy& strategy, const models::ModelFacts& facts) {
  if (strategy.expert_copies > 0 && strategy.ep == 1) {
    throw LayoutError(fmt::format(
        "parallel.expert_copies = {}: without parallel.ep each rank has all experts, so there is "
        "nothing to copy; use parallel.ep above 1, or leave expert_copies out",
        strategy.expert_copies));
  }
  if (strategy.expert_ranks() == 1) return;
  if (facts.experts == 0) {
    const bool ep = strategy.ep > 1;
    throw LayoutError(fmt::format("parallel.{} = {}: the model ({}) has no experts to divide",
                                  ep ? "ep" : "expert_tp", ep ? strategy.ep : strategy.expert_tp,
                                  facts.family));
  }
  if (facts.expert_inner < strategy.expert_tp) {
    throw LayoutError(fmt::format("parallel.expert_tp = {}: an expert has {} inner features",
                                  strategy.expert_tp, facts.expert_inner));
  }
  if (facts.experts < strategy.ep) {
    throw LayoutError(fmt::format("parallel.ep = {}: the model has {} experts for {} ranks",
                                  strategy.ep, facts.experts, strategy.ep));
  }
}

void describe_sequence_ranks(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.sp", &parallel.sp,
             "Sequence parallelism: number of ranks that share each sequence; each holds some of "
             "its tokens. Use it for sequences that are too long for the memory of one rank.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  schema.add("parallel.sp_mode", &parallel.sp_mode,
             "How attention works with sp. ring: keys and values travel from rank to rank; works "
             "for any number of ranks. ulysses: each rank gets whole sequences for some of the "
             "heads; communicates less, but needs at least one head per rank of sp.",
             {.choices = {"ring", "ulysses"}});
}

void describe_tensor_ranks(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.tp", &parallel.tp,
             "Tensor parallelism: number of ranks that share each weight and its matrix products. "
             "Use it for models that are too large for one rank. It communicates the most, so keep "
             "these ranks on one host.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  schema.add("parallel.tp_mode", &parallel.tp_mode,
             "How tp shards weights and activations. 1d: along one dimension; best up to about 16 "
             "ranks. 2d: over q x q ranks; for micro-batches with many tokens. 2.5d: over tp_depth "
             "squares of q x q ranks; communicates less, and takes as much memory for weights as "
             "2d. 3d: over q x q x q ranks; communicates the least from 64 ranks on.",
             {.choices = {"1d", "2d", "2.5d", "3d"}});
  describe_tensor_depth(schema, parallel);
  schema.add("parallel.tp_sequence", &parallel.tp_sequence,
             "With tp_mode 1d. true: between the linear layers each rank keeps only its part of "
             "the tokens, which takes less memory. The forward pass communicates as much as "
             "without it, the backward pass half as much again.",
             {.unset = "true if tp_mode is 1d"});
}

void describe_expert_ranks(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.ep", &parallel.ep,
             "Expert parallelism: number of ranks that the experts of a layer are divided among, "
             "as evenly as possible. Tokens are sent to the ranks of their experts. Does not add "
             "ranks: ep must divide dp x sp x tp.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  schema.add("parallel.expert_tp", &parallel.expert_tp,
             "For models with experts: number of ranks that share each expert. A token is sent to "
             "all of them: use this if one expert is too large for a rank. ep x expert_tp must "
             "divide dp x sp x tp.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
}

void describe_expert_copies(ConfigSchema& schema, ParallelConfig& parallel) {
  constexpr int64_t kMostCopies = 1024, kMostRows = int64_t{1} << 40;
  schema.add(
      "parallel.expert_copies", &parallel.expert_copies,
      "With ep, in training: how many experts of a layer may be copied to all ranks of ep for a "
      "micro-batch if routing gives one rank more rows than the others. Each rank then computes "
      "its own rows for these experts. Copies take additional memory on each rank. 0: no copies.",
      {.unit = "experts", .minimum = 0, .maximum = kMostCopies});
  schema.add(
      "parallel.expert_copy_rows", &parallel.expert_copy_rows,
      "The cost of a copy, in rows: n experts are copied only if this takes more than n times "
      "this many rows from the busiest rank. docs/experts.md says from how many rows a copy "
      "pays off.",
      {.unit = "rows", .minimum = 1, .maximum = kMostRows});
}

void describe_zero_group(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add(
      "parallel.zero_group", &parallel.zero_group,
      "Shard for zero within groups of this many neighbouring ranks of dp x sp instead of over all "
      "of them, so that each group holds all shards. Takes more memory, but weights are sent "
      "within a group only. If links between hosts are slow, use the number of ranks per host.",
      {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis, .choices = {"all"}});
}

void describe_pipeline_layers(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.pp_layers", &parallel.pp_layers,
             "Number of the model's layers in each stage, in model order. auto: balances the "
             "computation of all stages, including the output head.",
             {.unit = "layers", .minimum = 1});
}

void describe_world(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.backend", &parallel.world.backend,
             "How ranks communicate. shm: shared memory, within a host. gloo: TCP. nccl: for GPUs. "
             "auto: nccl if each rank has a GPU, else shm within a host and gloo between hosts.",
             {.choices = {"auto", "shm", "gloo", "nccl"}});
  schema.add("parallel.device", &parallel.world.device,
             "Where ranks compute. gpu: on GPUs, which ranks share if there are more ranks than "
             "GPUs; calls between them then go through host memory. auto: on GPUs with backend "
             "nccl, or with backend auto if each rank has its own GPU; otherwise on the CPU.",
             {.choices = {"auto", "cpu", "gpu"}});
}

void describe_timeout(ConfigSchema& schema, ParallelConfig& parallel) {
  constexpr double kMostSeconds = 1e8;  // three years
  schema.add("parallel.timeout", &parallel.timeout,
             "How long a rank waits for other ranks before it ends with an error.",
             {.minimum = 0.001, .maximum = kMostSeconds});
}

namespace {

// For a model that is not trained.
void describe_pipeline_ranks(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.pp", &parallel.pp,
             "Pipeline parallelism: number of ranks that each hold some of the model's layers.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  describe_pipeline_layers(schema, parallel);
}

}  // namespace

void describe_model_ranks(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.tp", &parallel.tp,
             "Tensor parallelism: number of ranks that share each weight and its matrix products.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  schema.add("parallel.tp_mode", &parallel.tp_mode,
             "How tp shards weights. 1d communicates the least for few tokens. With 2d, 2.5d and "
             "3d, every rank in a row of the grid stores the keys and values of the row's heads.",
             {.choices = {"1d", "2d", "2.5d", "3d"}});
  describe_tensor_depth(schema, parallel);
  schema.add("parallel.ep", &parallel.ep,
             "Expert parallelism: number of the ranks of tp that the experts of a layer are "
             "divided among. 1: each rank has all experts and computes its part of the tokens.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  schema.add("parallel.expert_tp", &parallel.expert_tp,
             "For models with experts: number of the ranks of tp that share each expert. ep x "
             "expert_tp must divide tp.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  describe_pipeline_ranks(schema, parallel);
  describe_world(schema, parallel);
  describe_timeout(schema, parallel);
}

void describe_evaluation_ranks(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add(
      "parallel.dp", &parallel.dp,
      "Data parallelism: number of replicas of the model, each of which computes some of the rows.",
      {.unit = "replicas",
       .minimum = 1,
       .maximum = kMostRanksOfAxis,
       .unset = "all ranks / (pp x sp x tp)"});
  describe_pipeline_ranks(schema, parallel);
  describe_sequence_ranks(schema, parallel);
  describe_tensor_ranks(schema, parallel);
  describe_expert_ranks(schema, parallel);
  schema.add("parallel.zero", &parallel.zero,
             "3: weights are sharded over the ranks of dp x sp and gathered for each use. 0: each "
             "rank has all weights of its layers.",
             {.unset = "0"});
  describe_zero_group(schema, parallel);
  describe_world(schema, parallel);
  describe_timeout(schema, parallel);
}

Strategy resolve_model_ranks(const ParallelConfig& config, const models::ModelFacts& facts,
                             int ranks) {
  ParallelConfig held = config;
  held.tp_sequence = false;
  held.zero = 0;
  Strategy strategy = resolve_parallel(held, ranks);
  if (strategy.dp > 1) {
    throw LayoutError(
        fmt::format("--ranks={}: parallel.pp = {} x parallel.tp = {} hold the model once, on {} "
                    "ranks; use that many ranks, or a larger pp or tp",
                    ranks, strategy.pp, strategy.tp, strategy.pp * strategy.tp));
  }
  resolve_heads(facts, strategy);
  require_experts(strategy, facts);
  resolve_pipeline(held, facts, /*sequence_length=*/1, /*micro_batches=*/strategy.pp, strategy);
  return strategy;
}

Strategy resolve_evaluation_ranks(const ParallelConfig& config, const models::ModelFacts& facts,
                                  int64_t sequence_length, int ranks) {
  ParallelConfig held = config;
  held.zero = config.zero.value_or(0);
  if (held.zero == 1 || held.zero == 2) {
    throw ConfigError(
        fmt::format("parallel.zero = {}: an evaluation has no optimizer state and no gradients to "
                    "shard; use 3 to shard the weights, or 0",
                    *held.zero));
  }
  Strategy strategy = resolve_parallel(held, ranks);
  resolve_heads(facts, strategy);
  require_experts(strategy, facts);
  if (sequence_length < strategy.sp) {
    throw LayoutError(
        fmt::format("parallel.sp = {}: a row has {} tokens, fewer than the ranks that share it",
                    strategy.sp, sequence_length));
  }
  resolve_pipeline(held, facts, sequence_length, /*micro_batches=*/strategy.pp, strategy);
  return strategy;
}

}  // namespace colossal
