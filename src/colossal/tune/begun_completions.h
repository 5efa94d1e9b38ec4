// Completions that a run has started to sample but not yet trained on. They are trained on in the
// order of their prompts, so none is lost or used twice, and short completions are not preferred.
//
// With a staleness of s, sampling of a completion starts s generations before the update that
// trains on it. Sampling continues during each update in between, with the weights from before that
// update. Per update, the allowed length of a completion grows by max_length / (number of these
// updates). Sampling therefore needs at most that many forward passes per update, instead of as
// many as the longest completion has tokens, and the result does not depend on how fast a rank
// samples. If rewards are waited for and there are several such updates, completions are finished
// one update earlier.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "colossal/tune/generation.h"

namespace colossal::tune {

class BegunCompletions {
 public:
  struct Options {
    int64_t max_staleness = 0;  // in generations
    int64_t updates = 1;        // updates per generation
    int64_t max_length = 1;     // most tokens of a completion
    bool waits_for_rewards = false;
  };
  explicit BegunCompletions(const Options& options) : options_(options) {}
  // Returns during how many updates a completion is continued.
  static int64_t parts(const Options& options);

  // Returns how many completions must be begun to have `count`.
  int64_t missing(int64_t count) const;
  void begin(ScoredCompletion completion) { begun_.push_back(std::move(completion)); }

  // A completion to continue by at most max_new_tokens tokens.
  struct Continuation {
    ScoredCompletion* completion;
    int64_t max_new_tokens;
  };
  // Returns those of the first `count` completions that have neither an end token nor max_length
  // tokens.
  std::vector<Continuation> unfinished(int64_t count);
  // Returns the completions to continue during update `update` (from 0) of a generation of `count`
  // completions, which take() has returned.
  std::vector<Continuation> beside_update(int64_t update, int64_t count);
  // Appends tokens to a completion. version: number of generations that the sampling weights were
  // trained on.
  static void append(ScoredCompletion& to, const Completion& sampled, int64_t version);
  // Returns the completions that are finished and have no rewards yet.
  std::vector<ScoredCompletion*> unrewarded();
  // Whether the first `count` completions have their rewards.
  bool are_rewarded(int64_t count) const;
  // Returns the completion with this number, which must be there.
  ScoredCompletion& with_number(int64_t number);
  // Removes and returns the first `count` completions, all of which must be finished.
  std::vector<ScoredCompletion> take(int64_t count);

  nlohmann::json state() const { return to_json(begun_); }
  void restore(const nlohmann::json& state) { begun_ = completions_from_json(state); }
  // Called when a resumed run has other rewards.
  void forget_rewards();

 private:
  bool is_finished(const ScoredCompletion& completion) const;

  Options options_;
  std::vector<ScoredCompletion> begun_;  // in the order in which they are trained on
};

}  // namespace colossal::tune
