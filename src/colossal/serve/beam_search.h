// Beam search: finds likely continuations of a prompt by keeping the best few partial texts (beams)
// at each token.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/serve/request.h"

namespace colossal::serve {

// Follows _beam_search() of Hugging Face transformers. The score of a beam is the sum of the
// log-probabilities of its tokens.
class BeamSearch {
 public:
  // A token that may follow a beam. Ignored if its logprob is not finite.
  struct Candidate {
    GeneratedToken token{};
    double logprob = 0;  // added to the score of the beam; may differ from token.logprob
  };
  // A beam of the next step: a current beam and one more token.
  struct Continuation {
    int64_t parent = 0;  // index of the extended beam
    GeneratedToken token{};
    double score = 0;
  };
  // Returns whether a beam is complete with this token, e.g. because of a stop string. BeamSearch
  // itself checks end tokens and the greatest length.
  using IsComplete = std::function<bool(const Continuation&)>;

  // most: the greatest length of a text in tokens, without the prompt.
  BeamSearch(const BeamSearchOptions& options, std::vector<int32_t> end_tokens, int64_t most);

  // Returns how many candidates of each beam advance() needs. If the vocabulary has fewer tokens,
  // it needs them all.
  int64_t num_candidates() const;
  int64_t num_beams() const { return std::ssize(beams_); }
  // Extends the beams by one token. candidates: for each beam, in the order of the last result, its
  // most likely tokens, most likely first. Returns the new beams, best first; empty if the search
  // is over.
  std::vector<Continuation> advance(const std::vector<std::vector<Candidate>>& candidates,
                                    const IsComplete& is_complete = {});
  // The complete texts found so far, best first, at most `width`.
  const std::vector<BeamText>& finished() const { return finished_; }

 private:
  struct Beam {
    std::vector<GeneratedToken> tokens;
    double score = 0;
  };

  std::vector<Continuation> best_of(const std::vector<std::vector<Candidate>>& candidates) const;
  bool is_end(int32_t token) const;
  double scaled(double score, int64_t length) const;
  void finish(const Continuation& continuation, FinishReason reason);
  bool is_full() const { return std::ssize(finished_) == options_.width; }
  bool may_improve() const;

  BeamSearchOptions options_;
  std::vector<int32_t> end_tokens_;
  int64_t most_;
  std::vector<Beam> beams_{Beam()};
  std::vector<BeamText> finished_;
  int64_t length_ = 0;  // number of tokens of every beam
};

}  // namespace colossal::serve
