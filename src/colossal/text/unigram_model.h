// Unigram language model: finds the segmentation of a word whose tokens have the largest sum of
// scores (log-probabilities). Source: Kudo, "Subword Regularization: Improving Neural Network
// Translation Models with Multiple Subword Candidates", 2018. The search, including its order of
// additions, follows the `tokenizers` library.
#pragma once

#include "colossal/text/byte_trie.h"
#include "colossal/text/fallback_bytes.h"
#include "colossal/text/word_model.h"

namespace colossal::text {

// A run of unknown characters is encoded as a whole: as one token if the vocabulary has this text,
// else as byte tokens if the model has byte fallback and a token for each byte, else as one unknown
// token.
class UnigramModel : public WordModel {
 public:
  // definition.model must be a UnigramDefinition.
  explicit UnigramModel(const TokenizerDefinition& definition);

  std::unique_ptr<WordModel::Scratch> make_scratch() const override;
  // Viterbi search: O(bytes of the word x bytes of the longest token).
  void encode(std::string_view word, WordModel::Scratch& scratch,
              std::vector<int32_t>& tokens) const override;

 private:
  // The best segmentation up to a position in the word: its score, its last token, and the byte at
  // which this token begins.
  struct BestSegmentation {
    double score = 0;
    int32_t begin = kNowhere;
    int32_t token = 0;
  };
  static constexpr int32_t kNowhere = -1;
  struct Scratch : WordModel::Scratch {
    std::vector<BestSegmentation> best_to;  // by byte position, 0 to word.size()
    std::vector<int32_t> ends;              // end positions of the chosen tokens, last token first
  };

  static void keep_better(BestSegmentation& best, double score, int32_t begin, int32_t token);
  void search(std::string_view word, std::vector<BestSegmentation>& best_to) const;
  void append_token(std::string_view part, int32_t token, std::vector<int32_t>& tokens) const;

  std::vector<double> scores_;
  double unknown_score_;
  int32_t unknown_;
  ByteTrie trie_;
  FallbackBytes fallback_bytes_;
};

}  // namespace colossal::text
