// The Unigram language model of SentencePiece: encodes a word as the tokens with the largest sum of
// scores (log-probabilities) among all ways to divide the word into tokens. Source: Kudo, "Subword
// Regularization: Improving Neural Network Translation Models with Multiple Subword Candidates",
// 2018. Scores are added in the order of the `tokenizers` library, so that rounding is the same.
#pragma once

#include "colossal/text/tokenizer/byte_trie.h"
#include "colossal/text/tokenizer/fallback_bytes.h"
#include "colossal/text/tokenizer/word_model.h"

namespace colossal::text {

// The word model "Unigram": the division of a word into tokens with the highest sum of scores. A
// character that has no token of its own may also stand alone, as unknown, with a score below those
// of all tokens. Consecutive unknown characters of the best division are encoded as a whole: as one
// token if the vocabulary has a token with their text; else as the tokens of their bytes if the
// model has byte fallback and each byte has a token; else as one unknown token.
class UnigramModel : public WordModel {
 public:
  // definition.model must be a UnigramDefinition.
  explicit UnigramModel(const TokenizerDefinition& definition);

  std::unique_ptr<WordModel::Scratch> make_scratch() const override;
  // Appends the tokens of the word to `tokens`. Viterbi search, in O(b * t) time: b is the number
  // of bytes of the word, t that of the longest token.
  void encode(std::string_view word, WordModel::Scratch& scratch,
              std::vector<int32_t>& tokens) const override;

 private:
  // The best way to divide the word up to one position into tokens. Only the last token is stored;
  // the tokens before it are those of the best way up to `begin`.
  struct BestSegmentation {
    double score = 0;          // sum of the scores of all tokens
    int32_t begin = kNowhere;  // byte at which the last token begins; kNowhere: none found yet
    int32_t token = 0;         // id of the last token
  };
  static constexpr int32_t kNowhere = -1;
  struct Scratch : WordModel::Scratch {
    std::vector<BestSegmentation> best_to;  // by byte position, from 0 to word.size()
    std::vector<int32_t> ends;              // end positions of the chosen tokens, last token first
  };

  // Replaces `best` if no way was found yet (kNowhere) or if its score is lower than `score`.
  static void keep_better(BestSegmentation& best, double score, int32_t begin, int32_t token);
  // Computes the best segmentation up to each position of the word.
  void search(std::string_view word, std::vector<BestSegmentation>& best_to) const;
  // Appends a chosen token. part: its text; if the token is the unknown token, a whole run of
  // unknown characters.
  void append_token(std::string_view part, int32_t token, std::vector<int32_t>& tokens) const;

  std::vector<double> scores_;  // by token id
  double unknown_score_;        // score of an unknown character: 10 below the lowest score
  int32_t unknown_;             // id of the unknown token
  ByteTrie trie_;               // token ids by the tokens' texts
  FallbackBytes fallback_bytes_;
};

}  // namespace colossal::text
