// Beam search: of all texts that a model may continue a prompt with, the likely ones, by keeping
// the best few beginnings at each token.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/serve/request.h"

namespace colossal::serve {

// What is decided at each token, as transformers' _beam_search() does. A beam's score is the sum of
// the log-probabilities of its tokens.
class BeamSearch {
 public:
  // A token that may follow a beam.
  struct Candidate {
    GeneratedToken token{};
    double logprob = 0;  // that the search goes by
  };
  // What a beam goes on as.
  struct Continuation {
    int64_t parent = 0;  // of the beams before
    GeneratedToken token{};
    double score = 0;
  };
  // Whether a beam that goes on with the token is complete, beyond end tokens and the length.
  using IsComplete = std::function<bool(const Continuation&)>;

  // prompt: its tokens; most: how many may follow it.
  BeamSearch(const BeamSearchOptions& options, std::vector<int32_t> end_tokens, int64_t most);

  // How many candidates of a beam can matter.
  int64_t num_candidates() const;
  int64_t num_beams() const { return std::ssize(beams_); }
  // candidates: of each beam, most likely first, num_candidates() or as many as there are. Returns
  // what goes on, best first; empty: the search is over. These are the beams from now on.
  std::vector<Continuation> advance(const std::vector<std::vector<Candidate>>& candidates,
                                    const IsComplete& is_complete = {});
  // Best first, at most as many as there are beams.
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
  int64_t length_ = 0;  // of each beam
};

}  // namespace colossal::serve
