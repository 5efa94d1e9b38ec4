#include "colossal/booster/training_data.h"

#include "colossal/base/log.h"
#include "colossal/base/units.h"

namespace colossal {
namespace {

data::TokenDataset open_dataset(const std::vector<std::string>& files, const char* setting,
                                const text::Tokenizer& tokenizer, const Job& job) {
  data::CorpusOptions options;
  options.setting = setting;
  options.cache = job.config.data.cache;
  options.invalid = job.config.data.invalid;
  options.num_threads = job.threads;
  const data::Corpus corpus = data::Corpus::open(files, tokenizer, options);
  if (corpus.num_skipped_files() > 0) {
    log::warn("{}: skipped {} files that are not UTF-8", setting, corpus.num_skipped_files());
  }
  log::info("{}: {} tokens of {} files{}", setting, format_count(corpus.num_tokens()),
            format_count(corpus.num_files()), corpus.from_cache() ? ", tokenized before" : "");
  std::optional<int64_t> end_of_document;
  if (job.config.data.separate_documents) end_of_document = tokenizer.end_of_text();
  return data::TokenDataset(corpus, job.sequence_length, end_of_document);
}

}  // namespace

void check_vocabulary(const Job& job, const text::Tokenizer& tokenizer) {
  if (tokenizer.vocabulary_size() <= job.model.facts.vocabulary) return;
  throw ConfigError(
      fmt::format("data.tokenizer = \"{}\" has {} tokens, the model a vocabulary of {}; use "
                  "model.vocab_size = {} or another tokenizer",
                  job.config.data.tokenizer, tokenizer.vocabulary_size(),
                  job.model.facts.vocabulary, tokenizer.vocabulary_size()));
}

TrainingData::TrainingData(const Job& job, const ParallelContext& context)
    : job_(job),
      shape_{.global_batch = job.config.train.global_batch,
             .micro_batch = job.micro_batch,
             .num_replicas = job.strategy.dp,
             .replica = context.coordinate(Axis::dp)},
      tokenizer_(text::make_tokenizer(job.config.data.tokenizer)) {
  check_vocabulary(job, *tokenizer_);
  train_ = open_dataset(job.config.data.train, "data.train", *tokenizer_, job);
  if (!job.config.data.validation.empty()) {
    validation_ = open_dataset(job.config.data.validation, "data.validation", *tokenizer_, job);
  }
}

data::BatchLoader TrainingData::training_loader(int64_t steps_done) const {
  const data::SampleOrder order(train_->num_samples(),
                                static_cast<uint64_t>(job_.config.data.seed));
  return data::make_training_loader(*train_, order, shape_, steps_done, job_.config.train.steps);
}

data::BatchLoader TrainingData::validation_loader() const {
  return data::make_evaluation_loader(*validation_, shape_);
}

int64_t TrainingData::num_validation_steps() const {
  return data::num_evaluation_steps(shape_, validation_->num_samples());
}

nlohmann::json TrainingData::state() const {
  return {{"tokens", train_->corpus().num_tokens()},
          {"tokenizer", tokenizer_->fingerprint()},
          {"sequence_length", job_.sequence_length},
          {"separate_documents", job_.config.data.separate_documents},
          {"global_batch", job_.config.train.global_batch},
          {"seed", job_.config.data.seed}};
}

void TrainingData::check_resumed(const nlohmann::json& saved) const {
  const nlohmann::json here = state();
  for (const auto& [field, value] : here.items()) {
    const nlohmann::json there = saved.value(field, nlohmann::json());
    if (there == value) continue;
    log::warn(
        "the checkpoint was trained with data {} = {}, this run has {}: batches differ from those "
        "of an undisturbed run",
        field, there.dump(), value.dump());
  }
}

}  // namespace colossal
