// Completions that a run has begun to sample but has not trained on yet. They are trained on in the
// order in which they were begun, so none is lost or used twice, and short completions are not
// preferred.
//
// A completion belongs to the generation (generation.h) with which it is trained on. With
// max_staleness = s, it is begun at the first update on the generation s places before its own, and
// is continued during each of the n = s * updates updates on the generations before its own, with
// the weights from before that update. After i of these n updates it may have max_length * i / n
// tokens. So sampling needs at most max_length / n forward passes per update, instead of
// max_length, and the result does not depend on how fast a rank samples. With s = 0, a completion
// is begun and finished just before its generation is trained on. If rewards come from outside this
// process (waits_for_rewards) and n > 1, completions are finished one update earlier, so that their
// rewards are computed during the last update.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "colossal/tune/generation.h"

namespace colossal::tune {

class BegunCompletions {
 public:
  struct Options {
    int64_t max_staleness = 0;       // in generations
    int64_t updates = 1;             // updates per generation
    int64_t max_length = 1;          // most tokens of a completion
    bool waits_for_rewards = false;  // some reward is_external() (rewards.h)
  };
  explicit BegunCompletions(const Options& options) : options_(options) {}
  // Returns the number of updates during which a completion is continued.
  static int64_t parts(const Options& options);

  // Returns how many more completions must be begun so that there are `count`.
  int64_t missing(int64_t count) const;
  // Adds a completion, without tokens as yet, after all others.
  void begin(ScoredCompletion completion) { begun_.push_back(std::move(completion)); }

  // A completion to continue by at most max_new_tokens tokens.
  struct Continuation {
    ScoredCompletion* completion;  // valid until begin(), take() or restore()
    int64_t max_new_tokens;
  };
  // Returns those of the first `count` completions that are not finished, i.e. have neither an end
  // token nor max_length tokens, each with all tokens that it still may have.
  std::vector<Continuation> unfinished(int64_t count);
  // Returns the completions to continue during update `update` (from 0) on the current generation
  // of `count` completions, which take() has already returned.
  std::vector<Continuation> to_continue_during(int64_t update, int64_t count);
  // Appends the tokens of `sampled` to a completion. version: number of generations that the
  // sampling weights were trained on.
  static void append(ScoredCompletion& to, const Completion& sampled, int64_t version);
  // Returns the completions that are finished and have no rewards yet.
  std::vector<ScoredCompletion*> unrewarded();
  // Whether the first `count` completions have their rewards.
  bool are_rewarded(int64_t count) const;
  // Returns the completion whose ScoredCompletion::number this is; it must exist.
  ScoredCompletion& with_number(int64_t number);
  // Removes and returns the first `count` completions, all of which must be finished.
  std::vector<ScoredCompletion> take(int64_t count);

  nlohmann::json state() const { return to_json(begun_); }
  void restore(const nlohmann::json& state) { begun_ = completions_from_json(state); }
  // Call if a resumed run has other rewards than before: all must be computed again.
  void forget_rewards();

 private:
  bool is_finished(const ScoredCompletion& completion) const;

  Options options_;
  std::vector<ScoredCompletion> begun_;  // in the order in which they are trained on
};

}  // namespace colossal::tune
