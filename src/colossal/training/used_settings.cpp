#include "colossal/training/used_settings.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>

#include "colossal/base/toml.h"
#include "colossal/job/mask_config.h"
#include "colossal/optim/optimizer.h"

namespace colossal {
namespace {

constexpr const char* kRunPrefix = "# run ";
constexpr const char* kNotUsed = "not used";

// Sets what the model learns, and of masks what the program chose.
void set_objective(const Job& job, DataConfig& data) {
  const models::ModelFacts& facts = job.model.facts;
  if (job.model.transformer.reconstructs) {
    const nn::PatchEmbeddingOptions& patches = *job.model.transformer.patches;
    const data::ImageMaskOptions masks = resolve_masks(data, patches);
    data.mask_probability = masks.share;
    data.mask_block = masks.block * patches.patch;
  }
  if (job.model.transformer.patches) return;
  data.objective = facts.encoder_layers > 0 ? "denoising" : facts.causal ? "causal" : "masked";
  if (!facts.is_decoder()) data.mask_probability = data.mask_probability.value_or(kMaskedTokens);
}

// Returns the configuration with the values that were left to the program.
RunConfig used_config(const Job& job) {
  RunConfig config = job.config;
  if (!job.tokenizer.empty()) config.data.tokenizer = job.tokenizer;
  config.data.sequence_length = job.sequence_length;
  set_objective(job, config.data);
  config.train.micro_batch = job.micro_batch;
  config.train.threads = job.threads;
  config.parallel.dp = job.strategy.dp;
  config.parallel.zero = job.strategy.zero;
  config.parallel.tp_sequence = job.strategy.tp_sequence;
  config.parallel.pp_schedule = job.strategy.pp_schedule;
  config.precision.compute = type_name(job.precision.compute);
  config.precision.gradients = type_name(job.precision.gradient);
  const optim::DefaultSettings optimizer =
      optim::used_settings(config.optimizer.name, config.optimizer);
  if (optimizer.betas) config.optimizer.betas = optimizer.betas;
  if (optimizer.eps) config.optimizer.eps = optimizer.eps;
  if (optimizer.momentum) config.optimizer.momentum = optimizer.momentum;
  optim::ScheduleConfig& scheduler = config.scheduler;
  if (scheduler.name == "polynomial") scheduler.power = scheduler.power.value_or(1);
  if (scheduler.name == "power") {
    scheduler.power = scheduler.power.value_or(0.5);
    scheduler.decay_steps = scheduler.decay_steps.value_or(0);
  }
  if (scheduler.name == "wsd") {
    scheduler.decay_steps = scheduler.decay_steps.value_or((config.train.steps + 9) / 10);
  }
  return config;
}

std::string section_of(const std::string& key) {
  return key.substr(0, key.find('.'));
}

// Whether a chosen value fits this number of ranks or this machine only.
bool is_of_machine(const std::string& key) {
  const std::string section = section_of(key);
  return section == "parallel" || section == "memory" || key == "train.micro_batch" ||
         key == "train.threads" || key == "precision.gradients";
}

// Keys without which some optimizers, schedules and models do.
bool may_be_unused(const std::string& key) {
  const auto keys = {"optimizer.betas",       "optimizer.eps",  "optimizer.momentum",
                     "scheduler.power",       "data.objective", "scheduler.decay_steps",
                     "data.mask_probability", "data.mask_block"};
  return std::ranges::count(keys, key) > 0;
}

// Keys of these sections change the numbers of a run, except the keys in kUnrelated. Changes of
// [precision] are told where it is settled.
constexpr std::array<const char*, 8> kSections = {"model",   "data",      "optimizer", "experts",
                                                  "adapter", "scheduler", "train",     "tune"};
const std::set<std::string> kUnrelated{"model.preset",
                                       "model.path",
                                       "data.train",
                                       "data.validation",
                                       "data.tokenizer",
                                       "data.format",
                                       "data.cache",
                                       "data.invalid",
                                       "experts.observed",
                                       "adapter.resume_from",
                                       "train.threads",
                                       "train.micro_batch",
                                       "train.evaluate_every",
                                       "train.evaluate_sequences",
                                       "train.early_stopping",
                                       "train.early_stopping_threshold",
                                       "train.sample_prompts",
                                       "train.sample_tokens",
                                       "tune.epochs",
                                       "tune.log_completions",
                                       "tune.overlap_sampling",
                                       "tune.reward_timeout",
                                       "tune.teacher"};

bool changes_numbers(const std::string& key) {
  return std::ranges::count(kSections, section_of(key)) > 0 && !kUnrelated.contains(key);
}

// Returns the lines of a run.toml with given or chosen values that count, without their sources.
// The layout, the log and when checkpoints are saved do not count: an elastic run that begins anew
// on fewer ranks is the same run.
std::string essence(const std::string& contents) {
  std::string kept, line;
  bool counts = true, of_checkpoints = false;
  for (std::istringstream lines(contents); std::getline(lines, line);) {
    if (line.starts_with('[')) {
      counts = line != "[parallel]" && line != "[memory]" && line != "[log]";
      of_checkpoints = line == "[checkpoint]";
    }
    if (of_checkpoints && !line.starts_with("directory = ")) continue;
    if (counts && !line.starts_with('#')) kept += line.substr(0, line.rfind("  # ")) + '\n';
  }
  return kept;
}

}  // namespace

std::vector<UsedSetting> used_settings(const Job& job) {
  std::map<std::string, const ConfigSchema::Value*> read;
  for (const ConfigSchema::Value& value : job.read_values) read[value.key] = &value;
  RunConfig config = used_config(job);
  ConfigSchema schema;
  describe(schema, config);
  std::vector<ConfigSchema::Value> values = schema.values();
  std::set<std::string> known;
  for (const ConfigSchema::Value& value : values) known.insert(value.key);
  for (const ConfigSchema::Value& value : job.read_values) {
    if (!known.contains(value.key)) values.push_back(value);  // of the task, or of [model]
  }
  std::ranges::stable_sort(values, {}, [&](const ConfigSchema::Value& value) {
    const auto& sections = schema.sections();
    return std::ranges::find(sections, section_of(value.key)) - sections.begin();
  });
  std::vector<UsedSetting> used;
  for (const ConfigSchema::Value& value : values) {
    const auto as_read = read.find(value.key);
    const bool given = as_read == read.end() ? job.given_keys.contains(value.key)
                                             : as_read->second->source != ConfigSource::by_default;
    const bool chosen = as_read != read.end() && as_read->second->text != value.text;
    UsedSetting setting{.key = value.key,
                        .value = value.text,
                        .source = given && as_read != read.end()
                                      ? config_source_name(as_read->second->source)
                                  : given  ? "given"
                                  : chosen ? "chosen"
                                           : "default",
                        .is_value = parse_toml_value(value.text).has_value()};
    if (!setting.is_value && may_be_unused(value.key)) setting.value = kNotUsed;
    used.push_back(std::move(setting));
  }
  return used;
}

std::string run_file(const Job& job, const std::string& run) {
  const std::string command = job.command.empty() ? "train" : job.command;
  std::string text = fmt::format(
      "{}{} of `colossal {}`: all settings, each with its source. Comments are defaults, and what "
      "the\n"
      "# program chose for the number of ranks and the machine.\n"
      "# To start such a run again, give it other folders: colossal {} {} "
      "--checkpoint.directory=NEW --log.directory=NEW\n",
      kRunPrefix, run, command, command, kRunFile);
  std::string section;
  for (const UsedSetting& setting : used_settings(job)) {
    const std::string its_section = section_of(setting.key);
    if (its_section != section) text += fmt::format("\n[{}]\n", its_section);
    section = its_section;
    const bool is_comment = !setting.is_value || setting.source == "default" ||
                            (setting.source == "chosen" && is_of_machine(setting.key));
    text += fmt::format("{}{} = {}  # {}\n", is_comment ? "# " : "",
                        setting.key.substr(its_section.size() + 1), setting.value, setting.source);
  }
  return text;
}

std::string run_of_file(const std::string& contents) {
  if (!contents.starts_with(kRunPrefix)) return "";
  std::istringstream words(contents.substr(std::string(kRunPrefix).size()));
  std::string run;
  words >> run;
  return run;
}

bool same_settings(const std::string& a, const std::string& b) {
  return essence(a) == essence(b);
}

nlohmann::json settings_to_save(const Job& job) {
  nlohmann::json settings = nlohmann::json::object();
  for (const UsedSetting& setting : used_settings(job)) {
    if (!changes_numbers(setting.key) || setting.value == kNotUsed) continue;
    settings[setting.key] = setting.value;
  }
  return settings;
}

std::vector<std::string> changed_settings(const nlohmann::json& saved, const Job& job) {
  std::vector<std::string> changed;
  const nlohmann::json here = settings_to_save(job);
  const auto value_in = [](const nlohmann::json& settings, const std::string& key) {
    return settings.value(key, std::string("the model's"));
  };
  std::set<std::string> keys;
  for (const auto& [key, value] : saved.items()) keys.insert(key);
  for (const auto& [key, value] : here.items()) keys.insert(key);
  for (const std::string& key : keys) {
    const bool of_model = key.starts_with("model.");  // in the record only if it was given
    if (!of_model && (!saved.contains(key) || !here.contains(key))) continue;
    const std::string then = value_in(saved, key), now = value_in(here, key);
    if (then == now) continue;
    const bool is_length = key == "train.steps";  // which a constant rate does not depend on
    if (is_length && job.config.scheduler.name == "constant") continue;
    changed.push_back(
        fmt::format("{} was {} until this checkpoint, and is {} now{}", key, then, now,
                    is_length ? ": the learning rate follows the new length from here on" : ""));
  }
  return changed;
}

}  // namespace colossal
