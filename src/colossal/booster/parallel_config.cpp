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
    while (!fits()) ++strategy.tp_depth;  // at the latest, of squares of one rank
  }
}

}  // namespace

Strategy resolve_parallel(const ParallelConfig& config, int ranks) {
  Strategy strategy;
  strategy.pp = size_of("pp", config.pp);
  strategy.sp = size_of("sp", config.sp);
  strategy.tp = size_of("tp", config.tp);
  strategy.ep = size_of("ep", config.ep);
  strategy.expert_tp = size_of("expert_tp", config.expert_tp);
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

void describe_tensor_depth(ConfigSchema& schema, ParallelConfig& parallel) {
  schema.add("parallel.tp_depth", &parallel.tp_depth,
             "With tp_mode 2.5d: how many squares of ranks there are. tp = q x q x tp_depth.",
             {.minimum = 1, .maximum = kMostRanksOfAxis, .unset = "the smallest that fits tp"});
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

void describe_model_ranks(ConfigSchema& schema, ParallelConfig& parallel) {
  constexpr double kMostSeconds = 1e6;
  schema.add("parallel.tp", &parallel.tp,
             "How many ranks share each weight and the products with it.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  schema.add("parallel.tp_mode", &parallel.tp_mode,
             "How the ranks of tp cut weights. 1d sends the least for few tokens; 2d, 2.5d and 3d "
             "hold the keys and values of their heads at each rank of a row.",
             {.choices = {"1d", "2d", "2.5d", "3d"}});
  describe_tensor_depth(schema, parallel);
  schema.add("parallel.pp", &parallel.pp,
             "How many ranks form a pipeline, each with some of the model's layers.",
             {.unit = "ranks", .minimum = 1, .maximum = kMostRanksOfAxis});
  describe_pipeline_layers(schema, parallel);
  describe_backend(schema, parallel);
  schema.add("parallel.timeout", &parallel.timeout,
             "How long a rank waits for one that does not answer.",
             {.minimum = 0.001, .maximum = kMostSeconds});
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
  resolve_pipeline(held, facts, /*sequence_length=*/1, /*micro_batches=*/strategy.pp, strategy);
  return strategy;
}

}  // namespace colossal
