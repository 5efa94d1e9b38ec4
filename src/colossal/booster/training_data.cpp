#include "colossal/booster/training_data.h"

#include "colossal/base/counted.h"
#include "colossal/base/log.h"
#include "colossal/base/units.h"
#include "colossal/booster/agreement.h"
#include "colossal/booster/saved_model.h"
#include "colossal/data/denoising.h"

namespace colossal {
namespace {

data::TokenDataset open_dataset(const std::vector<std::string>& files, const std::string& setting,
                                const text::Tokenizer& tokenizer, const Job& job,
                                const std::function<void()>& tokenizing) {
  data::CorpusOptions options = corpus_options(job.config.data);
  options.setting = setting;
  options.memory_limit = job.memory_budget;
  options.num_threads = job.threads;
  options.progress = [&](const data::TokenizeProgress&) { tokenizing(); };
  const data::Corpus corpus = open_corpus(files, tokenizer, options);
  std::optional<int64_t> end_of_document;
  if (job.config.data.separate_documents) end_of_document = tokenizer.end_of_text();
  return data::TokenDataset(corpus, job.sequence_length, end_of_document);
}

// Opens each entry of data.train as a source if data.weights is set, else all entries as one
// source.
data::Mixture open_mixture(const text::Tokenizer& tokenizer, const Job& job,
                           const std::function<void()>& tokenizing) {
  const DataConfig& config = job.config.data;
  const auto seed = static_cast<uint64_t>(config.seed);
  if (config.weights.empty()) {
    return data::Mixture(open_dataset(config.train, "data.train", tokenizer, job, tokenizing),
                         seed);
  }
  std::vector<data::TokenDataset> sources;
  for (const std::string& files : config.train) {
    sources.push_back(
        open_dataset({files}, fmt::format("data.train \"{}\"", files), tokenizer, job, tokenizing));
  }
  return data::Mixture(std::move(sources), config.weights, seed);
}

// Logs how often the run will have read each source of a mixture at its end.
void log_shares(const data::Mixture& mixture, const Job& job) {
  if (mixture.sources().size() == 1) return;
  const auto drawn = static_cast<double>(job.config.train.steps) *
                     static_cast<double>(job.config.train.global_batch);
  for (size_t i = 0; i < mixture.sources().size(); ++i) {
    const auto samples = static_cast<double>(mixture.sources()[i].num_samples());
    log::info("data.train \"{}\": {:.1f}% of all sequences, read {:.2f} times in {} steps",
              job.config.data.train[i], 100 * mixture.share(i), mixture.share(i) * drawn / samples,
              format_count(job.config.train.steps));
  }
}

int64_t num_tokens_of(std::span<const data::TokenDataset> sources) {
  int64_t tokens = 0;
  for (const data::TokenDataset& source : sources) tokens += source.corpus().num_tokens();
  return tokens;
}

std::string contents_of(std::span<const data::TokenDataset> sources) {
  std::string contents;
  for (const data::TokenDataset& source : sources) {
    contents += (contents.empty() ? "" : "+") + source.corpus().fingerprint();
  }
  return contents;
}

std::string describe(std::span<const data::TokenDataset> sources) {
  if (sources.empty()) return "none";
  return fmt::format("{} tokens (contents {})", format_count(num_tokens_of(sources)),
                     contents_of(sources));
}

std::span<const data::TokenDataset> as_sources(const std::optional<data::TokenDataset>& dataset) {
  return {dataset ? &*dataset : nullptr, dataset ? size_t{1} : size_t{0}};
}

// Fields of a checkpoint's state, and their keys in run.toml.
constexpr std::pair<const char*, const char*> kStateKeys[] = {
    {"sequence_length", "data.sequence_length"},
    {"separate_documents", "data.separate_documents"},
    {"global_batch", "train.global_batch"},
    {"weights", "data.weights"},
    {"mask_probability", "data.mask_probability"},
    {"seed", "data.seed"}};

}  // namespace

data::CorpusOptions corpus_options(const DataConfig& config) {
  data::CorpusOptions options;
  options.cache = config.cache;
  options.format = config.format;
  options.text_field = config.text_field;
  options.invalid = config.invalid;
  return options;
}

data::Corpus open_corpus(const std::vector<std::string>& files, const text::Tokenizer& tokenizer,
                         const data::CorpusOptions& options) {
  data::Corpus corpus = data::Corpus::open(files, tokenizer, options);
  const std::string& setting = options.setting;
  if (corpus.num_skipped_files() > 0) {
    log::warn("{}: skipped {}, not UTF-8", setting, counted(corpus.num_skipped_files(), "file"));
  }
  if (corpus.num_skipped_lines() > 0) {
    log::warn("{}: skipped {} without a document", setting,
              counted(corpus.num_skipped_lines(), "line"));
  }
  const bool has_lines = corpus.num_documents() != corpus.num_files();
  log::info("{}: {} of {}{}{}", setting, counted(corpus.num_tokens(), "token"),
            counted(corpus.num_files(), "file"),
            has_lines ? ", " + counted(corpus.num_documents(), "document") : "",
            corpus.from_cache() ? ", from the cache" : "");
  return corpus;
}

std::string describe_changed_corpus(const nlohmann::json& saved, const nlohmann::json& here) {
  const auto differs = [&](const char* field) {
    return saved.contains(field) && saved[field] != here[field];
  };
  if (differs("tokenizer")) {
    return "the tokenizer has changed since this checkpoint: the same text has other tokens now";
  }
  if (!differs("tokens") && !differs("contents")) return "";
  const int64_t then = saved.at("tokens"), now = here.at("tokens");
  return fmt::format(
      "the corpus has changed since this checkpoint ({} tokens then, {} now{}); the order of "
      "samples will differ",
      format_count(then), format_count(now), then == now ? " with other contents" : "");
}

void check_vocabulary(const Job& job, const text::Tokenizer& tokenizer) {
  if (tokenizer.vocabulary_size() <= job.model.facts.vocabulary) return;
  throw ConfigError(
      fmt::format("data.tokenizer = \"{}\" has {} tokens, but the model's vocabulary has only {}; "
                  "use model.vocab_size = {} or another tokenizer",
                  job.tokenizer, tokenizer.vocabulary_size(), job.model.facts.vocabulary,
                  tokenizer.vocabulary_size()));
}

std::unique_ptr<text::Tokenizer> open_tokenizer(const Job& job) {
  return open_tokenizer(job, text::make_tokenizer(job.tokenizer));
}

std::unique_ptr<text::Tokenizer> open_tokenizer(const Job& job,
                                                std::unique_ptr<text::Tokenizer> tokenizer) {
  check_vocabulary(job, *tokenizer);
  log::info("tokenizer: {}", describe_tokenizer(job, *tokenizer));
  return tokenizer;
}

data::BatchShape batch_shape(const Job& job, const ParallelContext& context) {
  return {.global_batch = job.config.train.global_batch,
          .micro_batch = job.micro_batch,
          .num_replicas = job.strategy.dp,
          .replica = context.coordinate(Axis::dp)};
}

TrainingData::TrainingData(const Job& job, const ParallelContext& context,
                           const std::function<void()>& tokenizing)
    : job_(job),
      context_(context),
      shape_(batch_shape(job, context)),
      tokenizer_(open_tokenizer(job)) {
  if (job.model.facts.scores > 0) {
    throw ConfigError(
        fmt::format("model.path = \"{}\": this model gives labels or scores to texts and predicts "
                    "no tokens; train it with colossal tune classify or colossal tune reward",
                    job.config.model.path));
  }
  if (!job.model.facts.is_decoder()) {
    if (job.model.facts.encoder_layers > 0) sentinels_ = data::sentinels_of(*tokenizer_);
    masks_ = sentinels_.empty()
                 ? data::mask_options(*tokenizer_, job.tokenizer, job.model.facts.vocabulary)
                 : data::MaskOptions{.never = data::tokens_never_masked(*tokenizer_)};
    masks_->probability = job.config.data.mask_probability;
    masks_->seed = static_cast<uint64_t>(job.config.data.seed);
  }
  train_ = open_mixture(*tokenizer_, job, tokenizing);
  log_shares(*train_, job);
  if (!job.config.data.validation.empty()) {
    validation_ =
        open_dataset(job.config.data.validation, "data.validation", *tokenizer_, job, tokenizing);
  }
  require_agreement({{"data.tokenizer", tokenizer_->fingerprint()},
                     {"data.train", describe(train_->sources())},
                     {"data.validation", describe(as_sources(validation_))}},
                    context.world_group());
}

data::BatchLoader TrainingData::training_loader(int64_t steps_done) const {
  return data::make_training_loader(*train_, shape_, steps_done, job_.config.train.steps,
                                    masking());
}

data::BatchLoader TrainingData::validation_loader() const {
  return data::make_evaluation_loader(*validation_, shape_, masking());
}

int64_t TrainingData::num_validation_steps() const {
  return data::num_evaluation_steps(shape_, validation_->num_samples());
}

HeadLoss TrainingData::loss() const {
  return masks_ ? HeadLoss(cross_entropy) : TrainingTask::loss();
}

data::ChangeBatch TrainingData::masking() const {
  if (!masks_) return nullptr;
  if (job_.model.facts.encoder_layers > 0) {
    const data::DenoisingOptions options{
        .masks = *masks_,
        .decoder_start_token = job_.model.facts.decoder_start_token,
        .sentinels = sentinels_,
        .end_of_text = tokenizer_->end_of_text(),
        .min_length = job_.strategy.sp};
    return [options](data::Batch& batch) { data::make_noise(batch, options); };
  }
  return [options = *masks_](data::Batch& batch) { data::mask_tokens(batch, options); };
}

nlohmann::json TrainingData::state() const {
  nlohmann::json state{{"tokens", num_tokens_of(train_->sources())},
                       {"contents", contents_of(train_->sources())},
                       {"tokenizer", tokenizer_->fingerprint()},
                       {"sequence_length", job_.sequence_length},
                       {"separate_documents", job_.config.data.separate_documents},
                       {"global_batch", job_.config.train.global_batch},
                       {"weights", job_.config.data.weights},
                       {"seed", job_.config.data.seed}};
  if (masks_) state["mask_probability"] = masks_->probability;
  if (validation_) state["validation_contents"] = validation_->corpus().fingerprint();
  return state;
}

void TrainingData::check_resumed(const nlohmann::json& saved) const {
  if (context_.rank() != 0) return;  // all ranks have the same state
  const nlohmann::json here = state();
  const std::string changed = describe_changed_corpus(saved, here);
  if (!changed.empty()) log::warn("{}", changed);
  for (const auto& [field, key] : kStateKeys) {
    if (!saved.contains(field) || saved[field] == here[field]) continue;
    log::warn(
        "{} was {} until this checkpoint, and is {} now: the samples will differ from those of an "
        "uninterrupted run",
        key, saved[field].dump(), here[field].dump());
  }
  const char* const validation = "validation_contents";
  if (saved.contains(validation) && here.contains(validation) &&
      saved[validation] != here[validation]) {
    log::warn(
        "the files of data.validation have changed since this checkpoint: validation losses before "
        "and after it cannot be compared");
  }
}

}  // namespace colossal
