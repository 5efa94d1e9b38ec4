#include "colossal/engine/frozen_model.h"

#include <fmt/ranges.h>

#include "colossal/adapters/peft_folder.h"
#include "colossal/base/error.h"
#include "colossal/checkpoint/model_weights.h"
#include "colossal/engine/order_recording.h"
#include "colossal/engine/state_shapes.h"
#include "colossal/io/hub_cache.h"
#include "colossal/job/tokenizer_choice.h"
#include "colossal/text/tokenizer/tokenizer_files.h"

namespace colossal {
namespace {

memory::ChunkOptions chunk_options(const Job& job) {
  return {.working = job.precision.compute,
          .master = job.precision.master,
          .gradient = job.precision.gradient,
          .tiers = {.parameters = job.tiers.parameters, .nvme_path = job.tiers.nvme_path}};
}

// Removes an adapter that would be new: it would not change the outputs. The weights stay as stored
// for the run. Also removes what concerns training alone: optimizers divide weights among chunks,
// but frozen weights share them.
Job of_frozen_model(Job job) {
  job.config.optimizer = {};
  if (job.model.adapter && job.model.adapter->weights.empty()) {
    job.model.adapter->products.clear();
    job.model.adapter->trained.clear();
    job.model.adapter->prefix.reset();
  }
  return job;
}

// Returns a context for the model's own stages, heads and experts; null if the run's context fits.
std::unique_ptr<const ParallelContext> own_context(const Job& job, const ParallelContext& of_run) {
  const Strategy& there = of_run.strategy();
  if (job.strategy.stage_blocks == there.stage_blocks &&
      job.strategy.key_value_replicas == there.key_value_replicas && job.strategy.ep == there.ep &&
      job.strategy.expert_tp == there.expert_tp && job.strategy.expert_rows == there.expert_rows &&
      job.strategy.expert_copies == there.expert_copies) {
    return nullptr;
  }
  return std::make_unique<const ParallelContext>(of_run.world(), job.strategy, of_run.device());
}

// Sets config to the model that the adapter names. An adapter with a score head may belong to a
// model that predicts tokens.
void use_adapter(const adapters::AdaptedModel& adapted, const std::string& folder,
                 RunConfig& config) {
  std::string base;
  try {
    base = io::find_model(adapted.folder).string();
  } catch (const ConfigError&) {
    // the message below says what to do
  }
  if (!std::filesystem::is_directory(base)) {
    throw ConfigError(
        fmt::format("it is an adapter with base_model_name_or_path = \"{}\", which is not a folder "
                    "here; write the path of its model there, or merge the two: colossal convert "
                    "MODEL DEST --merge-adapter={}",
                    adapted.folder, folder));
  }
  config.model = {.path = base};
  models::ask_for_labels_of(adapted, config.model);
  config.adapter.kind = adapted.has_prefix ? "prefix" : "lora";
  config.adapter.resume_from = folder;
  if (std::filesystem::exists(std::filesystem::path(folder) / text::kTokenizerFile)) {
    config.data.tokenizer = folder;
  }
}

}  // namespace

Job job_of_folder(const Job& run, const std::string& folder, const std::string& setting) {
  RunConfig config = run.config;
  config.model = {.path = folder};
  config.adapter = {};
  config.data.tokenizer.reset();
  config.experts = {};
  config.parallel.expert_copies = 0;  // only for training
  config.train.dropout.reset();
  config.parallel.pp_layers.reset();
  config.data.sequence_length = run.sequence_length;
  const int ranks = run.strategy.world_size();
  try {
    if (const auto adapted = adapters::adapted_model(folder)) use_adapter(*adapted, folder, config);
    if (models::resolve_model(config.model).facts.experts == 0) {
      config.parallel.ep = config.parallel.expert_tp = 1;  // they regroup ranks only for experts
    }
    if (resolve_tokenizer(config) != config.model.path && !config.data.tokenizer) {
      config.data.tokenizer = run.tokenizer;
    }
    Job job = resolve_job(config, {.ranks = ranks, .local_ranks = ranks});
    if (job.model.weights.empty() || !job.model.newly_initialized.empty()) {
      throw ConfigError(
          fmt::format("the folder has no weights{}; give one saved by a run or by transformers",
                      job.model.weights.empty()
                          ? ""
                          : fmt::format(" of {}", fmt::join(job.model.newly_initialized, ", "))));
    }
    job.precision = run.precision;
    job.tiers = run.tiers;
    return job;
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", setting, error.what()));
  }
}

FrozenModel::FrozenModel(const Job& job, const ParallelContext& context, HeadLoss head)
    : FrozenModel(own_context(job, context), context, of_frozen_model(job), std::move(head)) {}

FrozenModel::FrozenModel(std::unique_ptr<const ParallelContext> own, const ParallelContext& of_run,
                         const Job& job, HeadLoss head)
    : own_context_(std::move(own)),
      context_(own_context_ ? *own_context_ : of_run),
      assembly_(models::assemble(job.model, context_)),
      weights_(assembly_.parameters(), context_, chunk_options(job),
               ordered_engine_config(job, context_.rank()).order),
      activations_(weights_, {}, {}),
      stages_(pipelined(*assembly_.model, model_source_of(job), context_, std::move(head))),
      executor_(context_, stages_, weights_, activations_, {}) {
  if (job.model.weights.empty()) {
    weights_.initialise(static_cast<uint64_t>(job.config.train.seed));
  } else {
    checkpoint::read_model(job.model, weights_);
  }
}

FrozenModel::~FrozenModel() = default;

void FrozenModel::run(const std::vector<data::Batch>& micro_batches) {
  ControlMessage unused;
  executor_.evaluate(stages_, micro_batches, {}, unused);
}

}  // namespace colossal
