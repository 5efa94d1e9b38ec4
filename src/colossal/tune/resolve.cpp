#include "colossal/tune/resolve.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "colossal/adapters/peft_folder.h"
#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/data/images/image_source.h"
#include "colossal/io/hub_cache.h"
#include "colossal/job/tokenizer_choice.h"
#include "colossal/tune/methods/reference.h"
#include "colossal/tune/rewards/rewards.h"
#include "colossal/tune/rollout/sampling_beside.h"

namespace colossal::tune {
namespace {

constexpr int64_t kDefaultLength = 1024;
constexpr int64_t kDefaultPromptLength = 512;  // for methods that sample

int64_t parameters_in(const std::string& folder, const std::string& setting) {
  try {
    const auto adapted = adapters::adapted_model(folder);
    const std::string base = adapted ? io::find_model(adapted->folder).string() : folder;
    return models::resolve_model({.path = base}).facts.parameters;
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", setting, error.what()));
  }
}

// Returns the number of parameters of the frozen models that a run holds.
int64_t frozen_parameters(const Tuning& tuning, const Job& job) {
  const bool has_copy = tuning.method->has_reference(tuning.config) && !Reference::is_base(job);
  int64_t parameters = has_copy ? job.model.facts.parameters : 0;
  for (const std::string& reward : tuning.config.reward) {
    if (const auto folder = reward_model_folder(reward)) {
      parameters += parameters_in(*folder, fmt::format("tune.reward = \"{}\"", reward));
    }
  }
  const TuningMethod::Teacher teacher = tuning.method->teacher(job.config, tuning.config);
  if (!teacher.folder.empty()) parameters += parameters_in(teacher.folder, teacher.setting);
  return parameters;
}

// Returns the bytes, on one rank, of its part of the frozen models' weights, and of a teacher's
// logits of a step.
int64_t bytes_of_frozen(const Tuning& tuning, const Job& job) {
  const Strategy& strategy = job.strategy;
  const int64_t parts =
      int64_t{strategy.tp} * strategy.pp * (strategy.zero == 3 ? strategy.dp * strategy.sp : 1);
  int64_t numbers = frozen_parameters(tuning, job) / parts;
  if (!tuning.method->teacher(job.config, tuning.config).folder.empty()) {
    numbers += job.share * job.sequence_length * job.model.facts.vocabulary /
               (int64_t{strategy.sp} * strategy.tp);
  }
  return numbers * static_cast<int64_t>(c10::elementSize(job.precision.compute));
}

// Returns the number of samples: lines or, with packing, rows, for which the lines must be
// tokenized.
int64_t count_samples(const Tuning& tuning, const RunConfig& run) {
  if (!tuning.config.packing) return count_lines(run.data.train, "data.train", run.data.format);
  const auto tokenizer = make_tokenizer(tuning, resolve_tokenizer(run));
  const Samples found = read_samples(run.data.train, *tokenizer, sample_options(tuning, run));
  return std::ssize(pack_samples(found.samples, *run.data.sequence_length, *tuning.config.packing));
}

void refuse_encoder(const Tuning& tuning, const models::ModelSpecification& model) {
  if (tuning.method->takes_encoders() || model.facts.causal) return;
  throw ConfigError(fmt::format(
      "colossal tune {} trains decoders, which predict the next token, but the model is "
      "an encoder; encoders are trained by colossal tune classify and, to predict "
      "masked tokens, by colossal train",
      tuning.method->name()));
}

// Encoder-decoders have the methods whose data has prompts and completions and that sample nothing.
void refuse_encoder_decoder(const Tuning& tuning, const models::ModelSpecification& model) {
  if (model.facts.encoder_layers == 0) return;
  if (!tuning.method->takes_encoder_decoders()) {
    std::vector<std::string> possible;
    for (const TuningMethod* const method : all_methods()) {
      if (method->takes_encoder_decoders()) possible.push_back(method->name());
    }
    throw ConfigError(
        fmt::format("colossal tune {}: not available for encoder-decoders such as {}; available "
                    "are {}",
                    tuning.method->name(), model.facts.family, fmt::join(possible, ", ")));
  }
  if (tuning.config.packing) {
    throw ConfigError(
        "data.packing with an encoder-decoder: each completion has a source text of its own, so "
        "samples cannot share a row; leave data.packing out");
  }
}

}  // namespace

void find_models(TuneConfig& config) {
  config.teacher = io::find_model(config.teacher).string();
  for (std::string& reward : config.reward) {
    const auto folder = reward_model_folder(reward);
    if (!folder) continue;
    reward.replace(reward.size() - folder->size(), folder->size(),
                   io::find_model(*folder).string());
  }
}

std::string default_sequence_length(const Tuning& tuning) {
  const std::string most =
      tuning.method->has_prompts_alone(tuning.config)
          ? fmt::format("{} + tune.max_completion_length", kDefaultPromptLength)
          : format_count(kDefaultLength);
  return "the model's maximum length, at most " + most;
}

void resolve(const Tuning& tuning, bool has_steps, RunConfig& run) {
  const models::ModelSpecification model = models::resolve_model(run.model);
  refuse_encoder(tuning, model);
  refuse_encoder_decoder(tuning, model);
  const bool reads_images = model.transformer.patches.has_value();
  tuning.method->resolve(model, tuning.config, run);
  if (reads_images && !run.data.sequence_length) run.data.sequence_length = model.facts.positions;
  if (!run.data.sequence_length) {
    const int64_t before = run.adapter.kind == "prefix" ? run.adapter.virtual_tokens : 0;
    const int64_t positions = model.facts.positions - before;
    const int64_t length = tuning.method->has_prompts_alone(tuning.config)
                               ? kDefaultPromptLength + tuning.config.max_completion_length
                               : kDefaultLength;
    run.data.sequence_length = std::min(length, positions);
  }
  if (tuning.method->has_prompts_alone(tuning.config) &&
      *run.data.sequence_length <= tuning.config.max_completion_length) {
    throw ConfigError(
        fmt::format("tune.max_completion_length = {} with data.sequence_length = {}: there is no "
                    "room for a prompt; use a smaller tune.max_completion_length, or a larger "
                    "data.sequence_length up to the model's maximum length",
                    tuning.config.max_completion_length, *run.data.sequence_length));
  }
  if (has_steps || run.train.global_batch < 1) return;
  auto samples = static_cast<double>(reads_images ? data::open_image_source(run.data.train)->size()
                                                  : count_samples(tuning, run));
  if (tuning.method->is_online()) {
    samples *= static_cast<double>(tuning.config.num_generations * tuning.config.num_iterations);
  }
  run.train.steps = std::max<int64_t>(
      1, std::llround(std::ceil(
             tuning.config.epochs * samples / static_cast<double>(run.train.global_batch) - 1e-9)));
}

int64_t extra_bytes_during_updates(const Tuning& tuning, const Job& job) {
  const bool samples = samples_during_updates(tuning, job, /*device=*/c10::kCPU);
  return bytes_of_frozen(tuning, job) + (samples ? sampler_bytes(tuning.config, job) : 0);
}

Job dry_run_job(const Tuning& tuning, const Job& job, int64_t extra_bytes) {
  Job rows = job;
  if (tuning.method->has_pairs()) {
    rows.config.train.global_batch *= 2;
    rows.share *= 2;
    rows.micro_batch *= 2;
  }
  for (int64_t* budget : {&rows.device_budget, &rows.memory_budget}) {
    if (*budget > 0) *budget = std::max<int64_t>(1, *budget - extra_bytes);
  }
  return rows;
}

}  // namespace colossal::tune
