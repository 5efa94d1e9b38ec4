// Completions that a run has begun and has not learned from yet. They are learned from in the order
// of their prompts, so that none is lost or learned from twice, and short ones are not preferred.
//
// With a staleness of s, completions are begun s generations before they are learned from, and go
// on in each generation with the weights of then. In each a completion may have this many more of
// its tokens than in the one before: their most, divided by s + 1. So sampling for a generation
// takes as many passes as that, instead of as many as the longest completion has tokens, and
// nothing depends on how fast a rank samples.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "colossal/tune/generation.h"

namespace colossal::tune {

class BegunCompletions {
 public:
  // max_staleness: in generations. max_length: the most tokens of a completion.
  BegunCompletions(int64_t max_staleness, int64_t max_length)
      : max_staleness_(max_staleness), max_length_(max_length) {}

  // How many more must be begun for a generation of `count` completions.
  int64_t missing(int64_t count) const;
  void begin(ScoredCompletion completion) { begun_.push_back(std::move(completion)); }

  // A completion that goes on in the generation of `count` completions, by at most this many
  // tokens.
  struct Continuation {
    ScoredCompletion* completion;
    int64_t max_new_tokens;
  };
  std::vector<Continuation> continuations(int64_t count);
  // Appends what a model sampled that has learned from `version` generations.
  static void append(ScoredCompletion& to, const Completion& sampled, int64_t version);
  // Takes the completions of the generation, which all have their end or their most tokens.
  std::vector<ScoredCompletion> take(int64_t count);

  nlohmann::json state() const { return to_json(begun_); }
  void restore(const nlohmann::json& state) { begun_ = completions_from_json(state); }

 private:
  int64_t max_staleness_, max_length_;
  std::vector<ScoredCompletion> begun_;  // in the order in which they are learned from
};

}  // namespace colossal::tune
