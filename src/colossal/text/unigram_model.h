// Finds the tokens of a word whose scores have the largest sum. Source: Kudo, "Subword
// Regularization: Improving Neural Network Translation Models with Multiple Subword Candidates",
// 2018; the search and its order of additions as in the `tokenizers` library.
#pragma once

#include "colossal/text/byte_trie.h"
#include "colossal/text/fallback_bytes.h"
#include "colossal/text/word_model.h"

namespace colossal::text {

// Unknown characters that touch are one unknown token, or the tokens of their bytes.
class UnigramModel : public WordModel {
 public:
  explicit UnigramModel(const TokenizerDefinition& definition);  // of a Unigram model

  std::unique_ptr<WordModel::Scratch> make_scratch() const override;
  // Linear in the word's length, times that of the longest token.
  void encode(std::string_view word, WordModel::Scratch& scratch,
              std::vector<int32_t>& tokens) const override;

 private:
  // The best way to a position in the word: its last token, and where that begins.
  struct Way {
    double score = 0;
    int32_t begin = kNowhere;
    int32_t token = 0;
  };
  static constexpr int32_t kNowhere = -1;
  struct Scratch : WordModel::Scratch {
    std::vector<Way> best_to;   // of each byte of the word, and its end
    std::vector<int32_t> ends;  // of tokens, the last one first
  };

  static void offer(Way& best, double score, int32_t begin, int32_t token);
  void search(std::string_view word, std::vector<Way>& best_to) const;
  void append_token(std::string_view part, int32_t token, std::vector<int32_t>& tokens) const;

  std::vector<double> scores_;
  double unknown_score_;
  int32_t unknown_;
  ByteTrie trie_;
  FallbackBytes fallback_bytes_;
};

}  // namespace colossal::text
