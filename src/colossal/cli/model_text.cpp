#include "colossal/cli/model_text.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/base/machine.h"
#include "colossal/text/tokenizer/tokenizer.h"
#include "colossal/training/training_data.h"

namespace colossal::cli {

int64_t resolve_sequence_length(std::optional<int64_t> given, int64_t most,
                                const models::ModelFacts& facts) {
  const int64_t length = given.value_or(std::min(facts.positions, most));
  if (length <= facts.positions) return length;
  throw ConfigError(
      fmt::format("--sequence-length={}: the model supports {} positions; give at most {}", length,
                  facts.positions, facts.positions));
}

data::Corpus open_model_text(const std::vector<std::string>& patterns, const std::string& tokenizer,
                             const models::ModelFacts& facts, const DataConfig& config,
                             std::optional<int64_t> threads) {
  const auto opened = text::make_tokenizer(tokenizer);
  if (opened->vocabulary_size() > facts.vocabulary) {
    throw ConfigError(
        fmt::format("the tokenizer {} has {} tokens, but the model's vocabulary has only {}; give "
                    "the model's own tokenizer with --tokenizer",
                    tokenizer, opened->vocabulary_size(), facts.vocabulary));
  }
  data::CorpusOptions options = corpus_options(config);
  options.setting = "--data";
  if (facts.is_decoder()) options.before_document = beginning_of_documents(*opened, config.bos);
  options.num_threads = static_cast<int>(threads.value_or(machine::available_cores()));
  return open_corpus(patterns, *opened, options);
}

}  // namespace colossal::cli
