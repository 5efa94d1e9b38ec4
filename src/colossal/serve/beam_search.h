// Beam search: finds likely continuations of a prompt by keeping the best few partial texts (beams)
// after each token. This file has the search itself, without a model; the engine (EngineCore)
// computes candidates from logits and passes them to advance().
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/serve/request.h"

namespace colossal::serve {

// One beam search, for one request. Follows _beam_search() of Hugging Face transformers. The score
// of a beam is the sum of Candidate::logprob over its generated tokens.
class BeamSearch {
 public:
  // A token that may follow a beam. Ignored if its logprob is not finite.
  struct Candidate {
    GeneratedToken token{};
    // Added to the score of the beam: the log-probability after masks, penalties and constraints.
    // token.logprob, which is returned to the user, is the log-probability before these.
    double logprob = 0;
  };
  // A beam extended by one token.
  struct Continuation {
    int64_t parent = 0;  // index of the beam that was extended, among the beams before advance()
    GeneratedToken token{};
    double score = 0;  // of the extended beam
  };
  // Returns whether the text of a continuation is complete, e.g. because it contains a stop string.
  // End tokens and the greatest length need no check in this function: BeamSearch checks them.
  using IsComplete = std::function<bool(const Continuation&)>;

  // Starts with one beam, the prompt, which has no generated tokens. end_tokens: tokens that
  // complete a text. most: the greatest number of generated tokens of a text.
  BeamSearch(const BeamSearchOptions& options, std::vector<int32_t> end_tokens, int64_t most);

  // Returns how many candidates advance() needs for each beam. If the vocabulary has fewer tokens,
  // pass all of them.
  int64_t num_candidates() const;
  // Number of current beams; 0 once the search is over.
  int64_t num_beams() const { return std::ssize(beams_); }
  // Extends the beams by one token and returns the new beams, best first; empty if the search is
  // over. candidates[i]: the num_candidates() most likely next tokens of current beam i, most
  // likely first. Beam i is element i of the last result of advance(); before the first call, there
  // is only beam 0. is_complete: may be empty (no further check).
  std::vector<Continuation> advance(const std::vector<std::vector<Candidate>>& candidates,
                                    const IsComplete& is_complete = {});
  // The complete texts found so far, best first, at most BeamSearchOptions::width. BeamText::score
  // is the sum of Candidate::logprob over the generated tokens, divided by length^length_penalty,
  // where `length` is the number of these tokens. Both include an end token.
  const std::vector<BeamText>& finished() const { return finished_; }

 private:
  struct Beam {
    std::vector<GeneratedToken> tokens;
    double score = 0;
  };

  // Returns the best continuations of all beams together, best first, at most num_candidates().
  std::vector<Continuation> best_of(const std::vector<std::vector<Candidate>>& candidates) const;
  bool is_end(int32_t token) const;
  // Returns score / length^length_penalty.
  double scaled(double score, int64_t length) const;
  // Adds a complete text to finished_, which keeps the best `width` texts.
  void finish(const Continuation& continuation, FinishReason reason);
  bool is_full() const { return std::ssize(finished_) == options_.width; }
  // Whether the search goes on, as options_.early_stopping defines it.
  bool may_improve() const;

  BeamSearchOptions options_;
  std::vector<int32_t> end_tokens_;
  int64_t most_;  // greatest number of generated tokens
  std::vector<Beam> beams_{Beam()};
  std::vector<BeamText> finished_;
  int64_t length_ = 0;  // number of generated tokens of each beam
};

}  // namespace colossal::serve
