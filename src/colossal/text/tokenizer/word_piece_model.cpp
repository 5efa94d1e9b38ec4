#include "colossal/text/tokenizer/word_piece_model.h"

#include "colossal/base/error.h"
#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

// Returns the tokens that begin with `prefix`, without the prefix.
ByteTrie tokens_after(const std::string& prefix, const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string_view, int32_t>> keys;
  for (const auto& [token, id] : vocabulary) {
    if (!token.starts_with(prefix)) continue;
    keys.emplace_back(std::string_view(token).substr(prefix.size()), id);
  }
  return ByteTrie(std::move(keys));
}

bool has_more_characters(std::string_view word, int64_t most) {
  int64_t count = 0;
  for (size_t position = 0; position < word.size(); next_code_point(word, position)) {
    if (count++ == most) return true;
  }
  return false;
}

}  // namespace

WordPieceModel::WordPieceModel(const TokenizerDefinition& definition, const std::string& file)
    : begins_word_(tokens_after("", definition.vocabulary)),
      continues_word_(
          tokens_after(std::get<WordPieceDefinition>(definition.model).continuing_prefix,
                       definition.vocabulary)),
      max_characters_(std::get<WordPieceDefinition>(definition.model).max_word_characters),
      unknown_(begins_word_.find(std::get<WordPieceDefinition>(definition.model).unknown_token)) {
  if (unknown_ != ByteTrie::kAbsent) return;
  throw ConfigError(fmt::format("{}: model.vocab lacks model.unk_token \"{}\"", file,
                                std::get<WordPieceDefinition>(definition.model).unknown_token));
}

std::unique_ptr<WordModel::Scratch> WordPieceModel::make_scratch() const {
  return std::make_unique<Scratch>();
}

void WordPieceModel::encode(std::string_view word, WordModel::Scratch&,
                            std::vector<int32_t>& tokens) const {
  const size_t before = tokens.size();
  bool is_known = !has_more_characters(word, max_characters_);
  for (size_t begin = 0; is_known && begin < word.size();) {
    size_t length = 0;
    int32_t token = ByteTrie::kAbsent;
    (begin == 0 ? begins_word_ : continues_word_)
        .for_each_prefix(word.substr(begin), [&](size_t prefix_length, int32_t longest) {
          length = prefix_length;
          token = longest;
        });
    is_known = token != ByteTrie::kAbsent;
    tokens.push_back(token);
    begin += length;
  }
  if (is_known) return;
  tokens.resize(before);
  tokens.push_back(unknown_);
}

}  // namespace colossal::text
