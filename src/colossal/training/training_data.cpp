#include "colossal/training/training_data.h"

#include "colossal/base/counted.h"
#include "colossal/base/log.h"
#include "colossal/base/units.h"
#include "colossal/data/denoising.h"
#include "colossal/data/token_dataset.h"
#include "colossal/job/tokenizer_choice.h"
#include "colossal/training/agreement.h"

namespace colossal {
namespace {

data::TokenDataset open_dataset(const std::vector<std::string>& files, const std::string& setting,
                                const text::Tokenizer& tokenizer, const Job& job,
                                const std::function<void()>& tokenizing) {
  data::CorpusOptions options = corpus_options(job.config.data);
  if (job.model.facts.is_decoder()) {
    options.before_document = beginning_of_documents(tokenizer, job.config.data.bos);
  } else if (job.config.data.bos.value_or(false)) {
    throw ConfigError(
        "data.bos = true: only decoders read a stream of documents, each after such a token; leave "
        "data.bos out");
  }
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
  std::vector<double> weights;
  for (size_t i = 0; i < config.train.size(); ++i) {
    const std::string& files = config.train[i];
    if (config.weights[i] == 0) {
      log::info("data.train \"{}\": left out, as its weight is 0", files);
      continue;
    }
    weights.push_back(config.weights[i]);
    sources.push_back(
        open_dataset({files}, fmt::format("data.train \"{}\"", files), tokenizer, job, tokenizing));
  }
  return data::Mixture(std::move(sources), std::move(weights), seed);
}

// Logs how often the run will have read each source of a mixture at its end.
void log_shares(const data::Mixture& mixture, const Job& job) {
  if (mixture.sources().size() == 1) return;
  const auto drawn = static_cast<double>(job.config.train.steps) *
                     static_cast<double>(job.config.train.global_batch);
  for (size_t i = 0; i < mixture.sources().size(); ++i) {
    const auto samples = static_cast<double>(mixture.sources()[i].num_samples());
    log::info("{}: {:.1f}% of all sequences, read {:.2f} times in {} steps",
              mixture.sources()[i].corpus().setting(), 100 * mixture.share(i),
              mixture.share(i) * drawn / samples, format_count(job.config.train.steps));
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

// Returns what a log says about the tokens before each document.
std::string describe_beginning(const text::Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  if (tokens.empty()) return "";
  return fmt::format(", each document after {}", tokenizer.decode(tokens));
}

}  // namespace

data::CorpusOptions corpus_options(const DataConfig& config) {
  data::CorpusOptions options;
  options.cache = config.cache;
  options.format = config.format;
  options.text_field = config.text_field;
  options.invalid = config.invalid;
  return options;
}

std::vector<int32_t> beginning_of_documents(const text::Tokenizer& tokenizer,
                                            const std::optional<bool>& bos) {
  if (bos == false) return {};
  std::vector<int32_t> tokens = tokenizer.beginning_of_text();
  if (!tokens.empty() || !bos) return tokens;
  if (const auto token = tokenizer.bos_token()) return {*token};
  throw ConfigError(
      "data.bos = true: the tokenizer has no beginning-of-text token: its post-processor adds "
      "none, "
      "and its tokenizer_config.json names no \"bos_token\"; leave data.bos out");
}

data::Corpus open_corpus(const std::vector<std::string>& files, const text::Tokenizer& tokenizer,
                         const data::CorpusOptions& options) {
  data::Corpus corpus = data::Corpus::open(files, tokenizer, options);
  const std::string& setting = options.setting;
  if (corpus.num_skipped_files() > 0) {
    log::warn("{}: skipped {} that are no text in UTF-8", setting,
              counted(corpus.num_skipped_files(), "file"));
  }
  if (const int64_t files = corpus.num_not_utf8_files(); files > 0) {
    log::warn(
        "{}: {} {} not UTF-8{}; the tokenizer takes their bytes as they are: convert them, or "
        "leave them out if they are no text",
        setting, format_count(files), files == 1 ? "file is" : "files are",
        corpus.not_utf8_file().empty() ? ""
                                       : fmt::format(", such as '{}'", corpus.not_utf8_file()));
  }
  if (corpus.num_skipped_lines() > 0) {
    log::warn("{}: skipped {} without a document", setting,
              counted(corpus.num_skipped_lines(), "row"));
  }
  const bool has_lines = corpus.num_documents() != corpus.num_files();
  log::info("{}: {} of {}{}{}{}", setting, counted(corpus.num_tokens(), "token"),
            counted(corpus.num_files(), "file"),
            has_lines ? ", " + counted(corpus.num_documents(), "document") : "",
            describe_beginning(tokenizer, options.before_document),
            corpus.from_cache() ? ", from the cache" : "");
  return corpus;
}

std::string describe_changed_corpus(const nlohmann::json& saved, const nlohmann::json& here) {
  const auto differs = [&](const char* field) {
    return saved.contains(field) && saved[field] != here[field];
  };
  if (!differs("tokens") && !differs("contents")) return "";
  const int64_t then = saved.at("tokens"), now = here.at("tokens");
  return fmt::format(
      "the corpus has changed since this checkpoint ({} tokens then, {} now{}); the order of "
      "samples will differ",
      format_count(then), format_count(now), then == now ? " with other contents" : "");
}

void refuse_other_tokenizer(const nlohmann::json& saved, const text::Tokenizer& tokenizer,
                            const std::string& name) {
  if (saved.value("tokenizer", tokenizer.fingerprint()) == tokenizer.fingerprint()) return;
  throw ConfigError(fmt::format(
      "data.tokenizer: the run was begun with another tokenizer than \"{}\", and the model's "
      "weights "
      "are for its tokens; use the tokenizer in the folder of the checkpoint, or start another run "
      "from the checkpoint's weights, with model.path and another checkpoint.directory",
      name));
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
    masks_->probability = job.config.data.mask_probability.value_or(kMaskedTokens);
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
                       {"tokenizer", tokenizer_->fingerprint()}};
  if (validation_) state["validation_contents"] = validation_->corpus().fingerprint();
  return state;
}

void TrainingData::check_resumed(const nlohmann::json& saved) const {
  refuse_other_tokenizer(saved, *tokenizer_, job_.tokenizer);
  if (context_.rank() != 0) return;  // all ranks have the same state
  const nlohmann::json here = state();
  const std::string changed = describe_changed_corpus(saved, here);
  if (!changed.empty()) log::warn("{}", changed);
  const char* const validation = "validation_contents";
  if (saved.contains(validation) && here.contains(validation) &&
      saved[validation] != here[validation]) {
    log::warn(
        "the files of data.validation have changed since this checkpoint: validation losses before "
        "and after it cannot be compared");
  }
}

}  // namespace colossal
