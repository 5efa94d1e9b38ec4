#include "colossal/booster/parallel_config.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/booster/pipeline_config.h"
#include "colossal/layout/heads.h"

namespace colossal {
namespace {

constexpr int kMostRanksOfAxis = 1 << 20;

int size_of(const char* key, int64_t value) {
  if (value < 1 || value > kMostRanksOfAxis) {
    throw ConfigError(
        fmt::format("parallel.{} = {}: a size is from 1 to {}", key, value, kMostRanksOfAxis));
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
        fmt::format("parallel.tp_sequence = true applies only to parallel.tp_mode = \"1d\"; in "
                    "\"{}\" each rank has its share of an activation only, in any case",
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
             "With tp_mode 2.5d: how many squares of ranks there are. tp = q x q x tp_depth.",
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
        fmt::format("parallel.zero = {}: stages are 0 (nothing sharded), 1 (optimizer state), 2 "
                    "(gradients too) and 3 (weights too)",
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
        "parallel.expert_copies = {}: each rank has all experts; copies need parallel.ep above 1",
        strategy.expert_copies));
  }
  if (strategy.expert_ranks() == 1) return;
  if (facts.experts == 0) {
    const bool ep = strategy.ep > 1;
    throw LayoutError(fmt::format("parallel.{} = {}: the model ({}) has no experts to share out",
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
             "How many ranks share each sequence; each has some of its tokens. Use it for "
             "sequences that are too long for the memory of one rank.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  schema.add(
      "parallel.sp_mode", &parallel.sp_mode,
      "How attention works on a sequence that the ranks of sp share. ring: the keys and values of "
      "all ranks pass by each rank; for any number of ranks. ulysses: each rank has whole "
      "sequences for some of the heads; sends less, and needs a head for each rank of sp.",
      {.choices = {"ring", "ulysses"}});
}

void describe_tensor_ranks(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.tp", &parallel.tp,
             "How many ranks share each weight and the products with it. Use it for models that "
             "are too large for one rank. It sends the most, so keep these ranks on one host.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  schema.add("parallel.tp_mode", &parallel.tp_mode,
             "How the ranks of tp cut weights and activations. 1d: along one dim; best up to about "
             "16 ranks. 2d: over q x q ranks; for micro-batches of many tokens. 2.5d: over "
             "tp_depth such squares; sends less, and takes as much memory for weights as 2d. 3d: "
             "over q x q x q ranks; sends the least from 64 ranks on.",
             {.choices = {"1d", "2d", "2.5d", "3d"}});
  describe_tensor_depth(schema, parallel);
  schema.add(
      "parallel.tp_sequence", &parallel.tp_sequence,
      "With tp_mode 1d. true: between products each rank keeps only its share of the tokens. That "
      "takes less memory; the forward pass sends as much, the backward pass half as much again.",
      {.unset = "true with tp_mode 1d"});
}

void describe_expert_ranks(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.ep", &parallel.ep,
             "For models with experts: among how many ranks the experts of a layer are divided, as "
             "evenly as they go. Tokens travel to the ranks of their experts. This does not add "
             "ranks: ep must divide dp x sp x tp.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  schema.add(
      "parallel.expert_tp", &parallel.expert_tp,
      "For models with experts: how many ranks hold a part each of the same expert. A token "
      "travels "
      "to all of them: use it where one expert is too large for a rank. ep x expert_tp must divide "
      "dp x sp x tp.",
      {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
}

void describe_expert_copies(ConfigSchema& schema, ParallelConfig& parallel) {
  constexpr int64_t kMostCopies = 1024, kMostRows = int64_t{1} << 40;
  schema.add("parallel.expert_copies", &parallel.expert_copies,
             "With ep, in training: how many experts of a layer may be copied to all ranks of ep "
             "for a micro-batch, where routing gives a rank more rows than others. Each rank then "
             "computes its own rows for them. The copies' memory is added to each rank. 0: none.",
             {.unit = "experts", .minimum = 0, .maximum = kMostCopies});
  schema.add("parallel.expert_copy_rows", &parallel.expert_copy_rows,
             "How many rows each copy must take from the busiest rank to be made. docs/experts.md "
             "says from how many it pays.",
             {.unit = "rows", .minimum = 1, .maximum = kMostRows});
}

void describe_zero_group(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.zero_group", &parallel.zero_group,
             "Divide what zero divides within groups of this many neighbouring ranks of dp x sp; "
             "each group then holds all of it. That takes more memory, and weights travel within a "
             "group only. If links between hosts are slow, take the number of ranks on a host.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis, .choices = {"all"}});
}

void describe_pipeline_layers(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.pp_layers", &parallel.pp_layers,
             "How many of the model's layers each stage has, in model order. auto: stages compute "
             "about equally much, the head included.",
             {.unit = "layers", .minimum = 1});
}

void describe_backend(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.backend", &parallel.backend,
             "What carries data between ranks. shm: the shared memory of a host. gloo: TCP. nccl: "
             "GPUs. auto: nccl if each rank has a GPU, else shm within a host and gloo between "
             "hosts.",
             {.choices = {"auto", "shm", "gloo", "nccl"}});
}

void describe_timeout(ConfigSchema& schema, ParallelConfig& parallel) {
  constexpr double kMostSeconds = 1e8;  // three years
  schema.add("parallel.timeout", &parallel.timeout,
             "How long a rank waits for the others before it ends with an error.",
             {.minimum = 0.001, .maximum = kMostSeconds});
}

namespace {

// For a model that is not trained.
void describe_pipeline_ranks(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.pp", &parallel.pp,
             "How many ranks form a pipeline, each with some of the model's layers.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  describe_pipeline_layers(schema, parallel);
}

}  // namespace

void describe_model_ranks(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.tp", &parallel.tp,
             "How many ranks share each weight and the products with it.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  schema.add("parallel.tp_mode", &parallel.tp_mode,
             "How the ranks of tp cut weights. 1d sends the least for few tokens; 2d, 2.5d and 3d "
             "hold the keys and values of their heads at each rank of a row.",
             {.choices = {"1d", "2d", "2.5d", "3d"}});
  describe_tensor_depth(schema, parallel);
  schema.add("parallel.ep", &parallel.ep,
             "For models with experts: among how many of the ranks of tp the experts of a layer "
             "are divided. 1: each rank has all, and computes its share of the tokens.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  schema.add("parallel.expert_tp", &parallel.expert_tp,
             "For models with experts: how many of the ranks of tp hold a part each of the same "
             "expert. ep x expert_tp must divide tp.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  describe_pipeline_ranks(schema, parallel);
  describe_backend(schema, parallel);
  describe_timeout(schema, parallel);
}

void describe_evaluation_ranks(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.dp", &parallel.dp,
             "How many replicas of the model compute, each some of the rows.",
             {.unit = "replicas",
              .minimum = 1,
              .maximum = kMostRanksOfAxis,
              .unset = "all ranks / (pp x sp x tp)"});
  describe_pipeline_ranks(schema, parallel);
  describe_sequence_ranks(schema, parallel);
  describe_tensor_ranks(schema, parallel);
  describe_expert_ranks(schema, parallel);
  schema.add(
      "parallel.zero", &parallel.zero,
      "3: the ranks of dp x sp divide the weights among themselves, and gather them for each "
      "use. 0: each has those of its layers.",
      {.unset = "0"});
  describe_zero_group(schema, parallel);
  describe_backend(schema, parallel);
  describe_timeout(schema, parallel);
}

Strategy resolve_model_ranks(const ParallelConfig& config, const models::ModelFacts& facts,
                             int ranks) {
  ParallelConfig held = config;
  held.tp_sequence = false;
  held.zero = 0;
  Strategy strategy = resolve_parallel(held, ranks);
  if (strategy.dp > 1) {
    throw LayoutError(fmt::format(
        "--ranks={}: parallel.pp = {} x parallel.tp = {} hold the model once, on {} ranks; give "
        "as many, or more of the two",
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
                    "divide; use 3 to divide the weights, or 0",
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
