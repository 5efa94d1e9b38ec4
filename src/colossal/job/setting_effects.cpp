#include "colossal/job/setting_effects.h"

#include <algorithm>
#include <cmath>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/job/mask_config.h"
#include "colossal/optim/parameter_groups.h"

namespace colossal {
namespace {

[[noreturn]] void refuse(const std::string& setting, const std::string& reason,
                         const std::string& remedy) {
  throw ConfigError(fmt::format("{}: {}; {}", setting, reason, remedy));
}

void refuse_without_log_directory(const Job& job) {
  const LogConfig& log = job.config.log;
  if (!log.directory.empty()) return;
  const auto refuse_if = [](bool asked, const std::string& setting, const char* key) {
    if (!asked) return;
    refuse(setting, "its output goes to log.directory, which is empty",
           fmt::format("set log.directory, or leave {} out", key));
  };
  refuse_if(log.profile > 0, fmt::format("log.profile = {}", log.profile), "log.profile");
  refuse_if(log.tensorboard, "log.tensorboard = true", "log.tensorboard");
  refuse_if(log.report && job.given_keys.contains("log.report"), "log.report = true", "log.report");
}

void refuse_without_checkpoint_directory(const CheckpointConfig& checkpoint) {
  if (!checkpoint.directory.empty()) return;
  if (checkpoint.every > 0) {
    refuse(fmt::format("checkpoint.every = {}", checkpoint.every),
           "no checkpoint is written, as checkpoint.directory is empty",
           "set checkpoint.directory, or leave checkpoint.every out");
  }
  if (checkpoint.memory_every > 0) {
    refuse(fmt::format("checkpoint.memory_every = {}", checkpoint.memory_every),
           "no checkpoint is written, as checkpoint.directory is empty",
           "set checkpoint.directory, or leave checkpoint.memory_every out");
  }
  if (checkpoint.resume == "must") {
    refuse("checkpoint.resume = \"must\"",
           "there is no checkpoint to resume from, as checkpoint.directory is empty",
           "set checkpoint.directory");
  }
}

void refuse_too_few_steps(const RunConfig& config) {
  const int64_t steps = config.train.steps, profile = config.log.profile;
  if (profile > 0 && steps < profile + kStepsBeforeProfile) {
    refuse(fmt::format("log.profile = {}", profile),
           fmt::format("the first {} steps are not profiled, and train.steps = {}",
                       kStepsBeforeProfile, steps),
           fmt::format("use train.steps = {} or more", profile + kStepsBeforeProfile));
  }
  if (config.scheduler.warmup_steps > steps) {
    refuse(fmt::format("scheduler.warmup_steps = {}", config.scheduler.warmup_steps),
           fmt::format("more than train.steps = {}: the learning rate would never reach its peak",
                       steps),
           fmt::format("use at most {}", steps));
  }
}

// No machine can compute more, and sizes in bytes would not fit 63 bits.
constexpr int64_t kMostTokensOfStep = int64_t{1} << 32;
constexpr double kMostBytesOfForward = 0x1p58;

void refuse_absurd_sizes(const Job& job) {
  const int64_t batch = job.config.train.global_batch, sequence = job.sequence_length;
  if (batch > kMostTokensOfStep / sequence) {
    refuse(fmt::format("train.global_batch = {}", batch),
           fmt::format("with {} tokens a sequence, more than {} tokens a step", sequence,
                       format_count(kMostTokensOfStep)),
           fmt::format("use at most {}", kMostTokensOfStep / sequence));
  }
  const models::ModelFacts& facts = job.model.facts;
  const double bytes_of_token = 64.0 * static_cast<double>(facts.layers * facts.hidden) +
                                8.0 * static_cast<double>(facts.vocabulary);
  const double bytes_of_sequence = bytes_of_token * static_cast<double>(sequence);
  if (static_cast<double>(job.micro_batch) * bytes_of_sequence > kMostBytesOfForward) {
    refuse(fmt::format("train.micro_batch = {}", job.micro_batch),
           fmt::format("the activations of one forward pass, of {} layers of {} and a vocabulary "
                       "of {}, would be too large to count",
                       facts.layers, facts.hidden, facts.vocabulary),
           fmt::format("use at most {:.0f}",
                       std::max(1.0, std::floor(kMostBytesOfForward / bytes_of_sequence))));
  }
}

void refuse_other_weights(const DataConfig& data) {
  if (data.weights.empty()) return;
  const std::string setting = fmt::format("data.weights = [{}]", fmt::join(data.weights, ", "));
  if (data.weights.size() != data.train.size()) {
    refuse(setting,
           fmt::format("data.train has {} entr{}", data.train.size(),
                       data.train.size() == 1 ? "y" : "ies"),
           "give one weight for each entry of data.train, or leave data.weights out");
  }
  for (double weight : data.weights) {
    if (weight >= 0 && std::isfinite(weight)) continue;
    refuse(setting, "a weight must be a number from 0", "give the share of each entry");
  }
  if (std::ranges::count(data.weights, 0) == std::ssize(data.weights)) {
    refuse(setting, "all weights are 0, so nothing would be read", "give one above 0");
  }
}

void refuse_other_objective(const Job& job) {
  const std::optional<std::string>& objective = job.config.data.objective;
  const models::ModelFacts& facts = job.model.facts;
  const char* const own = facts.encoder_layers > 0 ? "denoising"
                          : facts.causal           ? "causal"
                                                   : "masked";
  if (!objective || *objective == own) return;
  refuse(
      fmt::format("data.objective = \"{}\"", *objective),
      facts.encoder_layers > 0
          ? fmt::format("the model, of family {}, is an encoder-decoder: its encoder reads a "
                        "damaged text, and its decoder mends it",
                        facts.family)
      : *objective == "denoising"
          ? fmt::format("the model, of family {}, is no encoder-decoder: one stack of blocks "
                        "cannot read a damaged text and mend it",
                        facts.family)
      : facts.causal
          ? fmt::format("the model, of family {}, is a decoder: a position sees only the tokens "
                        "before it, so it cannot predict a masked token from those after it",
                        facts.family)
          : fmt::format("the model, of family {}, is an encoder: a position sees the next token, "
                        "so there is nothing to learn from predicting it",
                        facts.family),
      "leave data.objective out, or use another model");
}

// Of checkpoint.keep_best and train.early_stopping.
void refuse_nothing_to_compare(const RunConfig& config) {
  const CheckpointConfig& checkpoint = config.checkpoint;
  const bool keeps = checkpoint.keep_best > 0;
  if (!keeps && config.train.early_stopping == 0) return;
  const std::string setting =
      keeps ? fmt::format("checkpoint.keep_best = {}", checkpoint.keep_best)
            : fmt::format("train.early_stopping = {}", config.train.early_stopping);
  if (keeps && checkpoint.directory.empty()) {
    refuse(setting, "checkpoint.directory is empty, so nothing is saved",
           "set checkpoint.directory");
  }
  if (checkpoint.best_metric == "validation_loss") {
    if (config.data.validation.empty() || config.train.evaluate_every == 0) {
      refuse(setting, "checkpoint.best_metric is \"validation_loss\", which only evaluations give",
             "set data.validation and train.evaluate_every, or another checkpoint.best_metric");
    }
  } else if (checkpoint.every == 0) {
    refuse(setting,
           fmt::format("checkpoint.best_metric = \"{}\" is compared at the steps of "
                       "checkpoint.every, which is 0",
                       checkpoint.best_metric),
           "set checkpoint.every");
  }
}

}  // namespace

namespace {

// Refuses keys of texts for a model that reads images. reads_texts: whether it reads texts, too.
void refuse_text_keys(const DataConfig& data, bool reads_texts) {
  const DataConfig unset;
  const auto refuse_if = [&](bool given, const std::string& key) {
    if (!given) return;
    refuse(key,
           reads_texts ? "the texts that the model reads are those of images"
                       : "the model reads images, not texts",
           fmt::format("leave {} out", key));
  };
  refuse_if(data.tokenizer.has_value() && !reads_texts, "data.tokenizer");
  refuse_if(data.bos.has_value(), "data.bos");
  refuse_if(data.objective.has_value(), "data.objective");
  refuse_if(data.separate_documents, "data.separate_documents");
  refuse_if(!data.weights.empty(), "data.weights");
  refuse_if(!data.cache.empty(), "data.cache");
  refuse_if(data.text_field != unset.text_field, "data.text_field");
  refuse_if(data.format != unset.format, "data.format");
}

// Refuses augmentations that mix images, for a model that learns no classes.
void refuse_mixing(const DataConfig& data) {
  for (const std::string& name : data.augment) {
    if (name != "mixup" && name != "cutmix") continue;
    refuse(fmt::format("data.augment = \"{}\"", name),
           "it mixes images with their classes, and the model learns no classes", "leave it out");
  }
}

// Refuses keys that a model for masked patches has no use for.
void refuse_keys_without_masks(const RunConfig& config) {
  refuse_mixing(config.data);
  if (config.adapter.kind != "none") {
    refuse(fmt::format("adapter.kind = \"{}\"", config.adapter.kind),
           "the model learns the embedding of masked patches, which an adapter does not have",
           "leave adapter.kind out");
  }
}

// Refuses keys of masked patches for a model that gives images classes.
void refuse_keys_of_masks(const DataConfig& data) {
  const auto refuse_if = [](bool given, const std::string& key) {
    if (!given) return;
    refuse(key, "the model learns classes of images, of which nothing is masked",
           fmt::format("leave {} out", key));
  };
  refuse_if(data.mask_probability.has_value(), "data.mask_probability");
  refuse_if(data.mask_block.has_value(), "data.mask_block");
}

}  // namespace

void refuse_impossible_data(const RunConfig& config, const models::ModelSpecification& model) {
  if (model.transformer.reconstructs) refuse_keys_without_masks(config);
  if (model.transformer.patches) {
    refuse_text_keys(config.data, model.reads_texts());
    if (model.text_tower) refuse_mixing(config.data);
    if (!model.transformer.reconstructs) return refuse_keys_of_masks(config.data);
    resolve_masks(config.data, *model.transformer.patches);  // refuses wrong settings
    return;
  }
  if (config.data.mask_block) {
    refuse(fmt::format("data.mask_block = {}", *config.data.mask_block),
           "the model reads texts, not images", "leave data.mask_block out");
  }
  if (config.data.augment != DataConfig{}.augment) {
    refuse("data.augment", "the model reads texts, not images", "leave data.augment out");
  }
  if (model.facts.encoder_layers == 0) return;
  if (config.data.separate_documents) {
    refuse("data.separate_documents = true",
           "the model is an encoder-decoder, which reads and writes each sequence as one text",
           "leave data.separate_documents out");
  }
}

void refuse_impossible_settings(const Job& job) {
  refuse_absurd_sizes(job);
  const optim::ParameterGroups checked(job.config.optimizer);  // refuses wrong settings
  refuse_other_weights(job.config.data);
  refuse_other_objective(job);
  refuse_without_log_directory(job);
  refuse_without_checkpoint_directory(job.config.checkpoint);
  refuse_too_few_steps(job.config);
  const int64_t every = job.config.train.evaluate_every;
  const bool samples = !job.config.train.sample_prompts.empty();
  if (every > 0 && job.config.data.validation.empty() && !samples) {
    refuse(fmt::format("train.evaluate_every = {}", every),
           "there is nothing to evaluate on, as data.validation is empty",
           "set data.validation or train.sample_prompts, or leave train.evaluate_every out");
  }
  if (samples && (!job.model.facts.is_decoder() || job.model.facts.scores > 0)) {
    refuse("train.sample_prompts", "the model does not write texts: it is no decoder with a head",
           "leave train.sample_prompts out");
  }
  refuse_nothing_to_compare(job.config);
}

std::vector<std::string> settings_without_effect(const Job& job) {
  const RunConfig& config = job.config;
  std::vector<std::string> found;
  const auto add_if = [&](bool without_effect, const std::string& setting,
                          const std::string& reason) {
    if (without_effect) found.push_back(fmt::format("{} has no effect: {}", setting, reason));
  };
  const auto given = [&](const char* key) { return job.given_keys.contains(key); };
  const ParallelConfig& parallel = config.parallel;
  add_if(parallel.tp == 1 && parallel.tp_mode != "1d",
         fmt::format("parallel.tp_mode = \"{}\"", parallel.tp_mode), "parallel.tp is 1");
  add_if(parallel.tp == 1 && parallel.tp_sequence.has_value(),
         fmt::format("parallel.tp_sequence = {}", parallel.tp_sequence.value_or(false)),
         "parallel.tp is 1");
  add_if(parallel.sp == 1 && parallel.sp_mode != "ring",
         fmt::format("parallel.sp_mode = \"{}\"", parallel.sp_mode), "parallel.sp is 1");
  add_if(job.strategy.world_size() == 1 && parallel.zero.value_or(0) > 0,
         fmt::format("parallel.zero = {}", parallel.zero.value_or(0)),
         "there is one rank, which shards nothing");
  add_if(parallel.expert_copies == 0 && given("parallel.expert_copy_rows"),
         fmt::format("parallel.expert_copy_rows = {}", parallel.expert_copy_rows),
         "parallel.expert_copies is 0");
  const bool whole = parallel.accumulate == "full";
  add_if(whole && job.strategy.zero < 2, "parallel.accumulate = \"full\"",
         fmt::format("parallel.zero is {}, so each rank keeps all gradients anyway",
                     job.strategy.zero));
  add_if(whole && job.strategy.zero >= 2 && job.num_micro_batches() == 1,
         "parallel.accumulate = \"full\"", "train.micro_batch gives one micro-batch per step");
  add_if(!config.memory.nvme_path.empty() && !job.tiers.uses(memory::Tier::nvme) &&
             job.undecided_tiers.empty(),
         "memory.nvme_path", "no memory.offload_* puts anything there");
  const std::optional<int64_t> micro_batch = config.train.micro_batch;
  add_if(micro_batch.value_or(0) > job.share,
         fmt::format("train.micro_batch = {}", micro_batch.value_or(0)),
         fmt::format("each replica's part of train.global_batch = {} is {}, one forward pass",
                     config.train.global_batch, job.share));
  add_if(config.scheduler.name == "constant" && config.scheduler.minimum_ratio > 0,
         fmt::format("scheduler.minimum_ratio = {}", config.scheduler.minimum_ratio),
         "scheduler.name is \"constant\"");
  add_if(config.data.invalid == data::InvalidFiles::skip && job.tokenizer == "bytes" &&
             config.data.format == data::FileFormat::text,
         "data.invalid = \"skip\"",
         "data.tokenizer is \"bytes\", which accepts any file with data.format = \"text\"");
  add_if(job.model.facts.is_decoder() && given("data.mask_probability"),
         fmt::format("data.mask_probability = {}", config.data.mask_probability.value_or(0)),
         "the model is a decoder, which predicts the next token");
  add_if(config.data.weights.size() == 1, "data.weights", "data.train has one entry");
  add_if(config.data.format == data::FileFormat::text && given("data.text_field"),
         fmt::format("data.text_field = \"{}\"", config.data.text_field),
         "data.format is \"text\": a file is a document");
  if (config.adapter.kind == "none") {
    for (const std::string& key : job.given_keys) {
      add_if(key.starts_with("adapter.") && key != "adapter.kind", key, "adapter.kind is \"none\"");
    }
  }
  const bool no_checkpoints = config.checkpoint.directory.empty();
  add_if(no_checkpoints && given("checkpoint.keep"),
         fmt::format("checkpoint.keep = {}", config.checkpoint.keep),
         "checkpoint.directory is empty, so none is written");
  add_if(no_checkpoints && config.checkpoint.resume == "never", "checkpoint.resume = \"never\"",
         "checkpoint.directory is empty, so there is none");
  return found;
}

}  // namespace colossal
