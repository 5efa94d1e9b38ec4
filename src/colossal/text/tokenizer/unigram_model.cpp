#include "colossal/text/tokenizer/unigram_model.h"

#include <algorithm>

#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

constexpr double kUnknownPenalty = 10;  // how far an unknown character scores below the worst token

ByteTrie trie_of(const Vocabulary& vocabulary) {
  return ByteTrie({vocabulary.begin(), vocabulary.end()});
}

}  // namespace

UnigramModel::UnigramModel(const TokenizerDefinition& definition)
    : scores_(std::get<UnigramDefinition>(definition.model).scores),
      unknown_score_(*std::ranges::min_element(scores_) - kUnknownPenalty),
      unknown_(std::get<UnigramDefinition>(definition.model).unknown),
      trie_(trie_of(definition.vocabulary)) {
  if (std::get<UnigramDefinition>(definition.model).byte_fallback) {
    fallback_bytes_ = FallbackBytes(definition.vocabulary);
  }
}

std::unique_ptr<WordModel::Scratch> UnigramModel::make_scratch() const {
  return std::make_unique<Scratch>();
}

// Keeps the better of two segmentations; of equal ones, the first.
void UnigramModel::keep_better(BestSegmentation& best, double score, int32_t begin, int32_t token) {
  if (best.begin == kNowhere || score > best.score) best = {score, begin, token};
}

// Finds the best segmentation up to each position, from left to right (Viterbi algorithm).
void UnigramModel::search(std::string_view word, std::vector<BestSegmentation>& best_to) const {
  best_to.assign(word.size() + 1, {});
  for (size_t begin = 0; begin < word.size();) {
    size_t next = begin;
    next_code_point(word, next);
    const double score = best_to[begin].score;
    const auto from = static_cast<int32_t>(begin);
    bool is_known = false;
    trie_.for_each_prefix(word.substr(begin), [&](size_t length, int32_t token) {
      keep_better(best_to[begin + length], scores_[token] + score, from, token);
      is_known |= begin + length == next;
    });
    if (!is_known) keep_better(best_to[next], unknown_score_ + score, from, unknown_);
    begin = next;
  }
}

void UnigramModel::encode(std::string_view word, WordModel::Scratch& any_scratch,
                          std::vector<int32_t>& tokens) const {
  check_length(word);
  auto& scratch = static_cast<Scratch&>(any_scratch);
  auto& best_to = scratch.best_to;
  auto& ends = scratch.ends;
  search(word, best_to);
  ends.clear();
  for (auto end = static_cast<int32_t>(word.size()); end > 0; end = best_to[end].begin) {
    ends.push_back(end);
  }
  int32_t begin = 0;
  for (size_t i = ends.size(); i-- > 0;) {
    const int32_t token = best_to[ends[i]].token;
    const bool goes_on = i > 0 && token == unknown_ && best_to[ends[i - 1]].token == unknown_;
    if (goes_on) continue;
    append_token(word.substr(begin, ends[i] - begin), token, tokens);
    begin = ends[i];
  }
}

void UnigramModel::append_token(std::string_view part, int32_t token,
                                std::vector<int32_t>& tokens) const {
  if (token != unknown_) return tokens.push_back(token);
  // Adjacent unknown characters are joined, and together may be a token.
  const int32_t whole = trie_.find(part);
  if (whole != ByteTrie::kAbsent) return tokens.push_back(whole);
  if (!fallback_bytes_.append(part, tokens)) tokens.push_back(unknown_);
}

}  // namespace colossal::text
