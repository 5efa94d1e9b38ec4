#include "colossal/booster/job.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/booster/pipeline_config.h"
#include "colossal/booster/saved_model.h"
#include "colossal/booster/setting_effects.h"
#include "colossal/layout/heads.h"

namespace colossal {
namespace {

constexpr int64_t kDefaultSequence = 256;

int size_of(const char* key, int64_t value) {
  constexpr int64_t kMaximum = 1 << 20;
  if (value < 1 || value > kMaximum) {
    throw ConfigError(
        fmt::format("parallel.{} = {}: a size is from 1 to {}", key, value, kMaximum));
  }
  return static_cast<int>(value);
}

// Axes for which the families have no layers: refused here, with the layout that keeps the ranks.
void refuse_axis(const char* key, int size, int ranks) {
  if (size == 1) return;
  throw ConfigError(fmt::format(
      "parallel.{} = {}: models train over pp, dp, sp and tp only; nearest layout for {} ranks: "
      "dp = {}, {} = 1",
      key, size, ranks, ranks, key));
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
    throw ConfigError(fmt::format(
        "parallel.tp_sequence = true belongs to parallel.tp_mode = \"1d\": in \"{}\" each rank has "
        "its share of an activation as it is; leave tp_sequence out, or use tp_mode = \"1d\"",
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

Strategy resolve_parallel(const ParallelConfig& config, int ranks) {
  Strategy strategy;
  strategy.pp = size_of("pp", config.pp);
  strategy.sp = size_of("sp", config.sp);
  strategy.tp = size_of("tp", config.tp);
  strategy.ep = size_of("ep", config.ep);
  resolve_tensor_mode(config, strategy);
  strategy.sequence_mode = config.sp_mode == "ulysses" ? SequenceMode::ulysses : SequenceMode::ring;
  if (config.dp) strategy.dp = size_of("dp", *config.dp);
  refuse_axis("ep", strategy.ep, ranks);
  const int64_t zero = config.zero.value_or(ranks / (strategy.tp * strategy.pp) > 1 ? 1 : 0);
  if (zero < 0 || zero > 3) {
    throw ConfigError(fmt::format(
        "parallel.zero = {}: stages are 0 (nothing sharded), 1 (optimizer state), 2 (gradients "
        "too) and 3 (weights too); nearest: zero = {}",
        zero, zero < 0 ? 0 : 3));
  }
  strategy.zero = static_cast<int>(zero);
  if (const auto* group = std::get_if<int64_t>(&config.zero_group)) {
    strategy.zero_group = size_of("zero_group", *group);
  }
  return resolve_strategy(strategy, config.dp.has_value(), ranks);
}

// Heads are the smallest parts of attention: every rank that shares them has one at least. Those of
// a side of tp do, and those of Ulysses; the ranks of a ring each have all.
void check_heads(const Strategy& strategy, const models::ModelFacts& facts) {
  const int ranks = strategy.world_size();
  int side = strategy.head_ranks();
  while (facts.heads < side || strategy.tp * strategy.dp % strategy.tp_of_side(side) != 0) --side;
  const bool too_many_for_ulysses =
      strategy.sequence_mode == SequenceMode::ulysses && facts.heads / side < strategy.sp;
  if (side < strategy.head_ranks()) {
    const int tp = strategy.tp_of_side(side);
    std::string mode, columns;
    if (strategy.tensor_mode != TensorMode::one_d) {
      mode = fmt::format(", tp_mode = \"{}\"", tensor_mode_name(strategy.tensor_mode));
      columns = fmt::format(" for {} columns of ranks", strategy.head_ranks());
    }
    throw ConfigError(fmt::format(
        "parallel.tp = {}{}: the model has {} heads{}; nearest layout for {} ranks: tp = {}, dp = "
        "{}{}",
        strategy.tp, mode, facts.heads, columns, ranks, tp, ranks / tp / strategy.sp,
        too_many_for_ulysses ? ", sp_mode = \"ring\"" : ""));
  }
  if (too_many_for_ulysses) {
    throw ConfigError(fmt::format(
        "parallel.sp_mode = \"ulysses\" with parallel.sp = {}: a rank of tp has {} heads, which {} "
        "ranks of sp cannot share; nearest: parallel.sp_mode = \"ring\", which needs no heads",
        strategy.sp, facts.heads / side, strategy.sp));
  }
}

int64_t resolve_sequence(const DataConfig& data, const Strategy& strategy,
                         const models::ModelFacts& facts) {
  const int64_t sequence =
      data.sequence_length.value_or(std::min(kDefaultSequence, facts.positions));
  if (sequence < 1 || sequence > facts.positions) {
    throw ConfigError(
        fmt::format("data.sequence_length = {}: the model has {} positions; use 1 to {}", sequence,
                    facts.positions, facts.positions));
  }
  if (sequence < strategy.sp) {
    throw ConfigError(fmt::format(
        "parallel.sp = {}: a sequence has {} tokens, fewer than the ranks that share it; "
        "use {}",
        strategy.sp, sequence,
        strategy.sp <= facts.positions ? fmt::format("data.sequence_length = {}", strategy.sp)
                                       : fmt::format("parallel.sp = {}", sequence)));
  }
  return sequence;
}

memory::Recompute resolve_recompute(const MemoryConfig& config, const models::ModelFacts& facts) {
  if (const auto* layers = std::get_if<int64_t>(&config.recompute)) {
    if (*layers > facts.layers) {
      throw ConfigError(
          fmt::format("memory.recompute = {}: the model has {} layers; use 0 to {}, or \"full\"",
                      *layers, facts.layers, facts.layers));
    }
    return {.full_blocks = *layers};
  }
  const std::string& name = std::get<std::string>(config.recompute);
  if (name == "selective") return {.selective = true};
  return {.full_blocks = name == "full" ? memory::Recompute::kAllBlocks : 0};
}

memory::Tiers resolve_tiers(const MemoryConfig& config) {
  const memory::Tiers tiers{
      .parameters = memory::resolve_shares("parameters", config.offload_parameters),
      .gradients = memory::resolve_shares("gradients", config.offload_gradients),
      .optimizer = memory::resolve_shares("optimizer", config.offload_optimizer),
      .activations = memory::resolve_shares("activations", config.offload_activations),
      .nvme_path = config.nvme_path};
  memory::require_nvme_path(tiers);
  return tiers;
}

// In the order of what they usually cost: see plan/place_tiers.h.
std::vector<memory::MemoryKind> open_tiers(const MemoryConfig& config) {
  std::vector<memory::MemoryKind> open;
  const auto add = [&](memory::MemoryKind kind, const memory::Offload& offload) {
    if (offload == memory::Offload("auto")) open.push_back(kind);
  };
  add(memory::MemoryKind::optimizer, config.offload_optimizer);
  add(memory::MemoryKind::gradients, config.offload_gradients);
  add(memory::MemoryKind::parameters, config.offload_parameters);
  add(memory::MemoryKind::activations, config.offload_activations);
  return open;
}

void resolve_budgets(const MemoryConfig& config, const Machine& machine, Job& job) {
  const int64_t share = machine.memory_bytes / std::max(1, machine.local_ranks);
  job.device_budget = config.device_budget ? config.device_budget->bytes : share;
  job.host_budget = config.host_budget ? config.host_budget->bytes : 0;
  const bool both_given = config.device_budget && config.host_budget;
  job.memory_budget = both_given ? 0 : share;
}

int64_t resolve_share(const TrainConfig& train, const Strategy& strategy) {
  if (train.global_batch < 1) {
    throw ConfigError(
        fmt::format("train.global_batch = {}: at least 1 sequence", train.global_batch));
  }
  if (train.global_batch % strategy.dp != 0) {
    const int64_t below = train.global_batch / strategy.dp * strategy.dp;
    const int64_t above = below + strategy.dp;
    throw ConfigError(fmt::format(
        "train.global_batch = {} does not divide by dp = {}; nearest: global_batch = {}",
        train.global_batch, strategy.dp,
        below > 0 && train.global_batch - below <= above - train.global_batch ? below : above));
  }
  return train.global_batch / strategy.dp;
}

}  // namespace

Job resolve_job(const RunConfig& config, const Machine& machine,
                const std::set<std::string>& given_keys) {
  Job job{.config = config,
          .strategy = resolve_parallel(config.parallel, machine.ranks),
          .model = {},
          .precision = {}};
  models::ModelRequest request = config.model;
  request.dropout = config.train.dropout.value_or(-1);
  job.model = models::resolve_model(request);
  job.tokenizer = resolve_tokenizer(config);
  check_heads(job.strategy, job.model.facts);
  job.strategy.key_value_replicas = key_value_replicas(
      job.model.facts.heads, job.model.facts.kv_heads, job.strategy.head_ranks());
  job.sequence_length = resolve_sequence(config.data, job.strategy, job.model.facts);
  job.share = resolve_share(config.train, job.strategy);
  job.micro_batch = std::min(
      config.train.micro_batch.value_or(default_micro_batch(job.share, job.strategy)), job.share);
  resolve_pipeline(config.parallel, job.model.facts, job.sequence_length, job.num_micro_batches(),
                   job.strategy);
  job.precision =
      resolve_precision(config.precision, machine.bf16_instructions, job.num_micro_batches());
  job.strategy.table_rows = config.memory.table_rows;
  job.recompute = resolve_recompute(config.memory, job.model.facts);
  job.tiers = resolve_tiers(config.memory);
  job.recompute_open = config.memory.recompute == decltype(config.memory.recompute)("auto");
  job.tiers_open = open_tiers(config.memory);
  resolve_budgets(config.memory, machine, job);
  job.threads = static_cast<int>(config.train.threads.value_or(
      std::clamp(machine.cores / std::max(1, machine.local_ranks), 1, machine.most_threads)));
  job.given_keys = given_keys;
  refuse_impossible_settings(job);
  job.warnings = settings_without_effect(job);
  return job;
}

EngineConfig engine_config(const Job& job) {
  return {.optimizer = job.config.optimizer,
          .schedule = job.config.scheduler,
          .total_steps = job.config.train.steps,
          .global_batch = job.config.train.global_batch,
          .gradient_clip = job.config.train.gradient_clip,
          .seed = static_cast<uint64_t>(job.config.train.seed),
          .precision = job.precision,
          .accumulate_whole = job.config.parallel.accumulate == "full",
          .recompute = job.recompute,
          .tiers = job.tiers,
          .stage_costs = job.strategy.pp > 1
                             ? stage_costs(job.strategy, job.model.facts, job.sequence_length)
                             : parallel::pipeline::Costs{}};
}

ModelSource source_of(const Job& job) {
  return {
      .sharding = models::sharding(job.model),
      .make = [model = job.model](nn::Builder& build) { return models::build_model(model, build); },
      .compute = job.precision.compute};
}

}  // namespace colossal
