#include "colossal/job/job.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/job/adapter_config.h"
#include "colossal/job/nearest_layout.h"
#include "colossal/job/parallel_config.h"
#include "colossal/job/pipeline_config.h"
#include "colossal/job/routing_file.h"
#include "colossal/job/setting_effects.h"
#include "colossal/job/tokenizer_choice.h"

namespace colossal {
namespace {

constexpr int64_t kDefaultSequence = 256;
// Resident memory of a rank's process before its model exists: program, libraries, threads.
constexpr int64_t kProcessBytes = int64_t{128} << 20;

int64_t resolve_sequence(const DataConfig& data, const Strategy& strategy,
                         const models::ModelSpecification& model) {
  const int64_t positions = model.facts.positions;
  const bool reads_images = model.transformer.patches.has_value();
  if (reads_images && data.sequence_length.value_or(positions) != positions) {
    throw ConfigError(
        fmt::format("data.sequence_length = {}: an image has {} tokens, which model.image_size and "
                    "model.patch_size decide; leave the key out",
                    *data.sequence_length, positions));
  }
  const int64_t most = reads_images ? positions : std::min(kDefaultSequence, positions);
  const int64_t sequence = data.sequence_length.value_or(most);
  if (sequence < 1 || sequence > positions) {
    throw ConfigError(
        fmt::format("data.sequence_length = {}: the model has {} positions; use 1 to {}", sequence,
                    positions, positions));
  }
  if (sequence < strategy.sp) {
    throw LayoutError(fmt::format(
        "parallel.sp = {}: a sequence has {} tokens, fewer than the ranks that share it",
        strategy.sp, sequence));
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

// Lists the kinds of memory with offload_* = "auto", in the order of their usual cost
// (plan/place_tiers.h).
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

// Returns how much of the host's memory a rank's tensors may take: an equal share, less the process
// itself; 0: unknown.
int64_t share_of_host(const Machine& machine) {
  if (machine.memory_bytes == 0) return 0;
  const int ranks = std::max(1, machine.local_ranks);
  const int64_t share = machine.memory_bytes / ranks - kProcessBytes;
  if (share > 0) return share;
  throw ConfigError(fmt::format(
      "{} ranks on this host leave no memory for tensors: it has {}, and each process takes some "
      "{} before its model is made; with {} ranks, each would have as much again for its tensors",
      ranks, format_bytes(machine.memory_bytes), format_bytes(kProcessBytes),
      std::max<int64_t>(1, machine.memory_bytes / (2 * kProcessBytes))));
}

void resolve_budgets(const MemoryConfig& config, const Machine& machine, Job& job) {
  const bool both_given = config.device_budget && config.host_budget;
  const int64_t share = both_given ? 0 : share_of_host(machine);
  job.device_budget = config.device_budget ? config.device_budget->bytes : share;
  job.host_budget = config.host_budget ? config.host_budget->bytes : 0;
  job.memory_budget = both_given ? 0 : share;
}

int64_t resolve_share(const TrainConfig& train, const Strategy& strategy) {
  if (train.global_batch < 1) {
    throw ConfigError(
        fmt::format("train.global_batch = {}: must be at least 1 sequence", train.global_batch));
  }
  if (train.global_batch % strategy.dp != 0) {
    throw LayoutError(fmt::format("train.global_batch = {} is not a multiple of dp = {}",
                                  train.global_batch, strategy.dp));
  }
  return train.global_batch / strategy.dp;
}

void refuse_key_of_experts(const std::string& setting, const std::string& why) {
  throw ConfigError(fmt::format("{}: {}; leave it out", setting, why));
}

// Applies the keys experts.* to the model. Throws ConfigError if the model has no experts, because
// the keys would have no effect.
void resolve_experts(const ExpertConfig& config, models::ModelSpecification& model) {
  using Over = nn::RouterLosses::Over;
  const nn::RouterOptions& router = model.transformer.router;
  nn::RouterLosses& losses = model.transformer.router_losses;
  const bool any = config.balance_loss.value_or(0) > 0 || config.balance_over ||
                   config.z_loss > 0 || config.bias_rate > 0 || config.capacity_factor > 0;
  if (!config.observed.empty() && router.experts == 0) {
    refuse_key_of_experts(fmt::format("experts.observed = \"{}\"", config.observed),
                          fmt::format("the model ({}) has no experts", model.facts.family));
  }
  if (any && router.experts == 0) {
    refuse_key_of_experts("experts.*",
                          fmt::format("the model ({}) has no experts", model.facts.family));
  }
  if (config.bias_rate > 0 && !router.correction_bias) {
    refuse_key_of_experts(fmt::format("experts.bias_rate = {}", config.bias_rate),
                          fmt::format("the routers of the model ({}) have no bias for choosing "
                                      "experts; use experts.balance_loss",
                                      model.facts.family));
  }
  if (config.balance_loss) losses.balance = *config.balance_loss;
  if (config.balance_over) {
    if (losses.balance == 0) {
      refuse_key_of_experts(fmt::format("experts.balance_over = \"{}\"", *config.balance_over),
                            "experts.balance_loss is 0, so there is no such loss");
    }
    losses.over = *config.balance_over == "sequence" ? Over::sequence
                  : *config.balance_over == "layers" ? Over::layers
                                                     : Over::micro_batch;
  }
  losses.z = config.z_loss;
  model.transformer.router.capacity_factor = config.capacity_factor;
}

models::ModelSpecification resolve_model_of(const RunConfig& config,
                                            const std::set<std::string>& given_keys) {
  models::ModelRequest request = config.model;
  request.dropout = config.train.dropout.value_or(-1);
  models::ModelSpecification model = models::resolve_model(request);
  models::set_adapter(model, resolve_adapter(config.adapter, model, given_keys));
  resolve_experts(config.experts, model);
  refuse_impossible_data(config, model);
  return model;
}

// Throws LayoutError without a layout that would work; resolve_job() adds one.
Job resolve_with_model(const RunConfig& config, const Machine& machine,
                       const std::set<std::string>& given_keys,
                       const models::ModelSpecification& model) {
  if (config.parallel.strategy == "auto") {
    throw ConfigError(
        "parallel.strategy = \"auto\": the layout is not chosen yet; `colossal plan`, `train` and "
        "`tune` choose it before they resolve the job (plan/strategy_search.h)");
  }
  Job job{.config = config,
          .strategy = resolve_parallel(config.parallel, machine.ranks),
          .model = model,
          .precision = {}};
  if (job.model.reads_texts()) job.tokenizer = resolve_tokenizer(config);
  resolve_heads(job.model.facts, job.strategy);
  require_experts(job.strategy, job.model.facts);
  if (!config.experts.observed.empty()) {
    job.strategy.expert_rows = read_routing(config.experts.observed, job.model.facts);
  }
  job.sequence_length = resolve_sequence(config.data, job.strategy, job.model);
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
  job.recompute_undecided = config.memory.recompute == decltype(config.memory.recompute)("auto");
  job.undecided_tiers = open_tiers(config.memory);
  resolve_budgets(config.memory, machine, job);
  job.threads = static_cast<int>(config.train.threads.value_or(
      std::clamp(machine.cores / std::max(1, machine.local_ranks), 1, machine.max_threads)));
  job.given_keys = given_keys;
  refuse_impossible_settings(job);
  job.warnings = settings_without_effect(job);
  return job;
}

// Returns the error of the configuration on one rank, where no layout can be wrong; "" if there is
// none.
std::string error_on_one_rank(const RunConfig& config, const Validate& resolve) {
  RunConfig alone = config;
  ParallelConfig& parallel = alone.parallel;
  const ParallelConfig defaults;
  parallel.dp = defaults.dp;
  parallel.pp = parallel.sp = parallel.tp = parallel.ep = parallel.expert_tp = 1;
  parallel.tp_mode = defaults.tp_mode;
  parallel.tp_depth = defaults.tp_depth;
  parallel.tp_sequence = defaults.tp_sequence;
  parallel.sp_mode = defaults.sp_mode;
  parallel.zero = defaults.zero;
  parallel.zero_group = defaults.zero_group;
  parallel.pp_schedule = defaults.pp_schedule;
  parallel.pp_chunks = defaults.pp_chunks;
  parallel.pp_layers = defaults.pp_layers;
  try {
    resolve(alone, 1);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

Job resolve_job(const RunConfig& config, const Machine& machine,
                const std::set<std::string>& given_keys) {
  const models::ModelSpecification model = resolve_model_of(config, given_keys);
  try {
    return resolve_with_model(config, machine, given_keys, model);
  } catch (const LayoutError& error) {
    const bool all_here = machine.local_ranks == machine.ranks;
    const auto resolve = [&](const RunConfig& changed, int ranks) {
      Machine other = machine;
      other.ranks = ranks;
      if (all_here) other.local_ranks = ranks;
      return resolve_with_model(changed, other, given_keys, model).strategy;
    };
    std::string nearest = nearest_layouts(config, machine.ranks, resolve);
    if (nearest.empty()) {
      // Another key may be wrong too, at any layout: it is told when the layout works.
      const std::string also = error_on_one_rank(config, resolve);
      if (!also.empty()) {
        nearest = nearest_layouts(config, machine.ranks, [&](const RunConfig& changed, int ranks) {
          try {
            return resolve(changed, ranks);
          } catch (const LayoutError&) {
            throw;
          } catch (const ConfigError& other) {
            if (other.what() != also) throw;
            return resolve_parallel(changed.parallel, ranks);
          }
        });
      }
    }
    throw ConfigError(nearest.empty() ? error.what()
                                      : fmt::format("{}; nearest: {}", error.what(), nearest));
  }
}

Job resolve_job_as_given(const RunConfig& config, const Machine& machine,
                         const std::set<std::string>& given_keys) {
  return resolve_with_model(config, machine, given_keys, resolve_model_of(config, given_keys));
}

int64_t stricter_limit(int64_t a, int64_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

}  // namespace colossal
