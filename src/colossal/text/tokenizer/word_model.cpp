#include "colossal/text/tokenizer/word_model.h"

#include "colossal/base/error.h"
#include "colossal/text/tokenizer/bpe_model.h"
#include "colossal/text/tokenizer/unigram_model.h"
#include "colossal/text/tokenizer/word_piece_model.h"

namespace colossal::text {

void WordModel::check_length(std::string_view word) {
  if (word.size() < (size_t{1} << 31)) return;
  throw ConfigError(fmt::format(
      "a text of {} bytes has no place where the tokenizer could split it; 2 GiB is too long",
      word.size()));
}

std::unique_ptr<WordModel> make_word_model(const TokenizerDefinition& definition,
                                           const std::string& file) {
  if (std::holds_alternative<UnigramDefinition>(definition.model)) {
    return std::make_unique<UnigramModel>(definition);
  }
  if (std::holds_alternative<WordPieceDefinition>(definition.model)) {
    return std::make_unique<WordPieceModel>(definition, file);
  }
  return std::make_unique<BpeModel>(definition, file);
}

}  // namespace colossal::text
