#include "colossal/tune/methods/sample_task.h"

#include <ATen/ops/tensor.h>

#include <filesystem>
#include <numeric>
#include <utility>

#include "colossal/base/log.h"
#include "colossal/base/units.h"
#include "colossal/data/text_batch.h"
#include "colossal/io/folder_digest.h"
#include "colossal/text/model_folder.h"
#include "colossal/training/agreement.h"
#include "colossal/training/training_data.h"
#include "colossal/tune/methods/reference.h"
#include "colossal/tune/rewards/rewards.h"

namespace colossal::tune {
namespace {

void tell(const Samples& found, const char* setting, int64_t max_length) {
  int64_t rows = 0, tokens = 0;
  for (const Sample& sample : found.samples) {
    for (const Row& row : sample.rows) {
      ++rows;
      tokens += std::ssize(row.tokens);
    }
  }
  log::info("{}: {} samples, rows of {:.1f} tokens on average", setting,
            format_count(std::ssize(found.samples)),
            static_cast<double>(tokens) / static_cast<double>(rows));
  if (found.truncated > 0) {
    log::warn("{}: {} of {} rows are longer than data.sequence_length = {} and are cut at the end",
              setting, format_count(found.truncated), format_count(rows), max_length);
  }
  if (found.skipped > 0) {
    log::warn("{}: skipped {} lines that contain no sample", setting, format_count(found.skipped));
  }
}

// Returns the folders of the other models that a run reads whenever it begins or resumes. Key: the
// setting that names the folder.
std::map<std::string, std::string> folders_beside(const Tuning& tuning, const Job& job) {
  const RunConfig& run = job.config;
  std::map<std::string, std::string> folders;
  for (const std::string& reward : tuning.config.reward) {
    if (const auto folder = reward_model_folder(reward)) {
      folders[fmt::format("tune.reward = \"{}\"", reward)] = *folder;
    }
  }
  const auto add = [&](const char* setting, const std::string& folder) {
    if (!folder.empty()) folders[setting] = folder;
  };
  const TuningMethod::Teacher teacher = tuning.method->teacher(run, tuning.config);
  add(teacher.setting.c_str(), teacher.folder);
  if (!tuning.method->has_reference(tuning.config)) return folders;
  if (!job.model.adapter) add("model.path", run.model.path);  // else Trainer checks this folder
  if (!Reference::is_base(job)) add("adapter.resume_from", run.adapter.resume_from);
  return folders;
}

constexpr const char* kChatTemplate = ", chat template";  // suffix of a setting
constexpr const char* kAuto = "auto";

// What the run starts from: the model and, if it trains an adapter further, this adapter.
text::ModelFolder folder_of(const RunConfig& run) {
  return {run.model.path, run.adapter.resume_from};
}

// Returns the tokens with which the samples end. chats: number of lines that are conversations.
std::vector<int32_t> end_tokens_of(const SampleOptions& options, const TuneConfig& config,
                                   const Samples& samples, const text::Tokenizer& tokenizer) {
  const int32_t end = tokenizer.end_of_text();
  if (samples.chats == 0 || config.eos_token != kAuto) return {end};
  const auto told = [&](int32_t token) {
    return fmt::format("{} ({})", text::token_text(token, tokenizer), token);
  };
  const auto turn = text::end_of_turn(*options.chat_template, tokenizer);
  if (!turn) {
    log::warn(
        "the chat template ends turns with no special token: answers will not end by themselves, "
        "unless the texts contain {}; use another data.chat_template",
        told(end));
    return {end};
  }
  if (*turn == end) return {end};
  log::info(
      "the chat template ends turns with {}, not with {}, the tokenizer's end token: checkpoints "
      "name it as an end token, so that answers end there",
      told(*turn), told(end));
  return {*turn, end};
}

std::map<std::string, std::string> digests_of(const std::map<std::string, std::string>& folders) {
  std::map<std::string, std::string> digests;
  for (const auto& [setting, folder] : folders) {
    // A missing folder is reported by the code that reads the model.
    if (!std::filesystem::exists(folder)) continue;
    const io::FolderDigest found = io::folder_digest(folder);
    digests[setting] = found.model;
    digests[setting + kChatTemplate] = found.chat_template;
  }
  return digests;
}

}  // namespace

SampleOptions sample_options(const Tuning& tuning, const RunConfig& run) {
  SampleOptions options{.setting = "data.train",
                        .max_length = run.data.sequence_length.value_or(SampleOptions{}.max_length),
                        .completion_only = tuning.config.completion_only_loss,
                        .needs_prompt = tuning.method->needs_prompts(tuning.config),
                        .assistant_only = tuning.config.assistant_only_loss,
                        .text_field = run.data.text_field,
                        .pair_field = tuning.config.pair_field,
                        .label_field = tuning.config.label_field,
                        .invalid = run.data.invalid,
                        .format = run.data.format};
  const TuneConfig& config = tuning.config;
  std::optional<text::ChatTemplate> found;
  if (config.chat_template != "model") {
    found = text::ChatTemplate::open(config.chat_template, run.model.path);
  } else if (!run.model.path.empty()) {
    found = folder_of(run).chat_template();
  }
  if (!found) return options;
  if (config.eos_token != kAuto) found->set_special_token("eos_token", config.eos_token);
  options.chat_template = std::make_shared<const text::ChatTemplate>(*std::move(found));
  return options;
}

std::unique_ptr<text::Tokenizer> make_tokenizer(const Tuning& tuning,
                                                const std::string& specification) {
  const std::string& end = tuning.config.eos_token;
  if (end == kAuto) return text::make_tokenizer(specification);
  try {
    return text::make_tokenizer_with_end(specification, end);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("data.eos_token = \"{}\": {}", end, error.what()));
  }
}

SampleTask::SampleTask(const Job& job, const ParallelContext& context, const Tuning& tuning,
                       SampleKind kind, const std::function<void()>& reading)
    : job_(job),
      context_(context),
      tuning_(tuning),
      shape_(batch_shape(job, context)),
      models_beside_(digests_of(folders_beside(tuning, job))),
      tokenizer_(open_tokenizer(job, make_tokenizer(tuning, job.tokenizer))) {
  train_ = read(job.config.data.train, "data.train", kind, reading);
  order_.emplace(std::ssize(train_.samples), static_cast<uint64_t>(job.config.data.seed));
  if (!job.config.data.validation.empty()) {
    validation_ = read(job.config.data.validation, "data.validation", kind, reading);
  }
  const SampleOptions options = sample_options(tuning, job.config);
  taught_.end_tokens = end_tokens_of(options, tuning.config, train_, *tokenizer_);
  const std::string& chosen = tuning.config.chat_template;
  if (chosen != "model") {
    taught_.chat_templates = std::vector<text::NamedTemplate>{
        {text::kDefaultTemplate, options.chat_template->source(), chosen}};
  } else if (!job.config.adapter.resume_from.empty()) {
    taught_.chat_templates = folder_of(job.config).chat_templates();
  }
  require_agreement({{"data.tokenizer", tokenizer_->fingerprint()},
                     {"data.train", train_.fingerprint},
                     {"data.validation", validation_ ? validation_->fingerprint : "none"}},
                    context.world_group());
}

Samples SampleTask::read(const std::vector<std::string>& files, const char* setting,
                         SampleKind kind, const std::function<void()>& reading) const {
  SampleOptions options = sample_options(tuning_, job_.config);
  options.setting = setting;
  options.kind = kind;
  options.max_length = job_.sequence_length;
  if (kind == SampleKind::prompt) options.max_length -= config().max_completion_length;
  if (kind == SampleKind::labeled) options.labels = labels_of(job_.model);
  if (job_.model.facts.encoder_layers > 0) {
    options.decoder_start_token = static_cast<int32_t>(job_.model.facts.decoder_start_token);
  }
  options.progress = reading;
  if (const auto& bos = job_.config.data.bos) {
    options.before_text = beginning_of_documents(*tokenizer_, bos);
  }
  Samples found = read_samples(files, *tokenizer_, options);
  tell(found, setting, job_.sequence_length);
  if (const auto packing = config().packing) {
    const auto before = std::ssize(found.samples);
    found.samples = pack_samples(found.samples, job_.sequence_length, *packing);
    log::info("{}: packed into {} rows, {:.2f} samples in each", setting,
              format_count(std::ssize(found.samples)),
              static_cast<double>(before) / static_cast<double>(found.samples.size()));
  }
  return found;
}

std::vector<int32_t> SampleTask::prompt_tokens(const std::string& prompt) const {
  if (train_.chats == 0) return tokenizer_->encode_prompt(prompt);
  const auto chat_template = sample_options(tuning_, job_.config).chat_template;
  const nlohmann::ordered_json messages = {{{"role", "user"}, {"content", prompt}}};
  return tokenizer_->encode(chat_template->render(messages, {.add_generation_prompt = true}).text);
}

const Sample& SampleTask::sample_at(int64_t position) const {
  return train_.samples[order_->sample_at(position)];
}

std::vector<data::Batch> SampleTask::read_training_step(int64_t step) const {
  const int64_t begin = step * shape_.global_batch, end = begin + shape_.global_batch;
  const auto sample = [&](int64_t position) { return &sample_at(position); };
  std::vector<MicroBatch> drawn;
  for (const Range& positions : data::training_micro_batches(shape_, step)) {
    MicroBatch& micro_batch = drawn.emplace_back();
    for (int64_t position = positions.begin; position < positions.end; ++position) {
      const int64_t previous = position == begin ? end - 1 : position - 1;
      micro_batch.push_back({sample(position), sample(previous), position});
    }
  }
  return make_batches(drawn);
}

std::vector<data::Batch> SampleTask::read_validation_step(int64_t step) const {
  const std::vector<Sample>& samples = validation_->samples;
  const auto all = std::ssize(samples);
  const int64_t begin = step * shape_.global_batch;
  const int64_t end = std::min<int64_t>(begin + shape_.global_batch, all);
  std::vector<MicroBatch> drawn;
  for (const Range& range : data::evaluation_micro_batches(shape_, all, step)) {
    MicroBatch& micro_batch = drawn.emplace_back();
    for (int64_t i = range.begin; i < range.end; ++i) {
      micro_batch.push_back({&samples[i], &samples[i == begin ? end - 1 : i - 1], i});
    }
  }
  return make_batches(drawn);
}

data::BatchLoader SampleTask::training_loader(int64_t steps_done) const {
  return loader_of([this](int64_t step) { return read_training_step(step); }, steps_done);
}

data::BatchLoader SampleTask::loader_of(std::function<std::vector<data::Batch>(int64_t step)> read,
                                        int64_t steps_done) const {
  return data::BatchLoader(std::move(read), steps_done, job_.config.train.steps);
}

data::BatchLoader SampleTask::validation_loader() const {
  return data::BatchLoader([this](int64_t step) { return read_validation_step(step); }, 0,
                           num_validation_steps());
}

int64_t SampleTask::num_validation_steps() const {
  return data::num_evaluation_steps(shape_, std::ssize(validation_->samples));
}

std::pair<std::vector<const Row*>, std::vector<int64_t>> SampleTask::rows_of(
    const MicroBatch& micro_batch) {
  std::pair<std::vector<const Row*>, std::vector<int64_t>> found;
  for (const Drawn& each : micro_batch) {
    found.first.push_back(&each.sample->rows.front());
    found.second.push_back(each.id);
  }
  return found;
}

std::vector<data::Batch> SampleTask::collate_samples(const std::vector<MicroBatch>& drawn) const {
  std::vector<data::Batch> batches;
  for (const MicroBatch& micro_batch : drawn) {
    auto [rows, ids] = rows_of(micro_batch);
    batches.push_back(collate_rows(rows, std::move(ids)));
  }
  return batches;
}

data::Batch SampleTask::collate_rows(const std::vector<const Row*>& rows,
                                     std::vector<int64_t> ids) const {
  return collate(rows, std::move(ids), tokenizer_->end_of_text(), job_.strategy.sp);
}

double SampleTask::mean_over_ranks(double sum, double count) const {
  at::Tensor both = at::tensor({sum, count}, at::kDouble).to(context_.world_group().device());
  comm::all_reduce(both, context_.world_group(), comm::Reason::control);
  both = comm::on_host(both, context_.world_group());
  const double all = both[1].item<double>();
  return all > 0 ? both[0].item<double>() / all : 0;
}

nlohmann::json SampleTask::state() const {
  nlohmann::json state{{"method", tuning_.method->name()},
                       {"samples", train_.samples.size()},
                       {"contents", train_.fingerprint},
                       {"tokenizer", tokenizer_->fingerprint()},
                       {"models_beside", models_beside_}};
  if (validation_) state["validation_contents"] = validation_->fingerprint;
  return state;
}

HeadLoss SampleTask::loss_to_record() const {
  const bool has_values = job_.model.transformer.value_head;
  return [has_values](models::Model& model, const nn::BlockState& state, const data::Batch& batch,
                      const nn::StepContext& step) {
    at::Tensor sum = model.token_head()
                         .log_probabilities(state.output(), batch.at(data::kLabels), 1, step)
                         .sum();
    if (has_values) sum = sum + model.value_head().values(state.output(), step).sum();
    return LossSum{.sum = sum, .count = batch.at(data::kLabels).numel()};
  };
}

void SampleTask::check_resumed(const nlohmann::json& saved) const {
  if (!saved.contains("method") || saved["method"] != tuning_.method->name()) {
    throw ConfigError(
        fmt::format("the checkpoint belongs to {}, but this run is colossal tune {}; to start from "
                    "its weights, give model.path = its folder and another checkpoint.directory",
                    saved.contains("method") ? "colossal tune " + saved["method"].get<std::string>()
                                             : "colossal train",
                    tuning_.method->name()));
  }
  refuse_other_tokenizer(saved, *tokenizer_, job_.tokenizer);
  if (context_.rank() != 0) return;  // the state is the same on all ranks
  const nlohmann::json here = state();
  if (saved.contains("contents") && saved["contents"] != here["contents"]) {
    log::warn(
        "the corpus has changed since this checkpoint ({} samples then, {} now{}): the samples "
        "will "
        "differ from those of an uninterrupted run",
        format_count(saved.value("samples", int64_t{0})), format_count(std::ssize(train_.samples)),
        saved.value("samples", size_t{0}) == train_.samples.size() ? " with other contents" : "");
  }
  const nlohmann::json before = saved.value("models_beside", nlohmann::json::object());
  for (const auto& [setting, digest] : models_beside_) {
    if (before.value(setting, digest) == digest) continue;
    const bool of_template = setting.ends_with(kChatTemplate);
    log::warn(
        "{}: the {} there has changed since this checkpoint: the results will differ from those of "
        "an uninterrupted run",
        of_template ? setting.substr(0, setting.size() - std::string(kChatTemplate).size())
                    : setting,
        of_template ? "chat template" : "model");
  }
}

}  // namespace colossal::tune
