// Completions that an on-policy run has begun to sample but has not trained on yet, and the
// schedule by which they grow. Used by OnlineTask. Completions are trained on in the order in which
// they were begun, so none is lost or used twice, and short completions are not preferred.
//
// A generation (generation.h) is the set of completions that one or several updates train on. Let s
// = max_staleness, and let n = s * updates, where `updates` is the number of updates per
// generation. A completion of generation g (from 0) is begun at the first update on generation g -
// s. It is continued during each of the n updates on generations g - s to g - 1, with the weights
// from before that update. After i of these updates it may have at most max_length * i / n tokens,
// rounded up. Sampling thus needs at most about max_length / n forward passes per update instead of
// max_length, and the result does not depend on how fast a rank samples.
//
// At the start of a run, the completions of generations 0 to s - 1 are behind this schedule. Those
// of generation 0 are begun and finished just before the first update. The others are begun at the
// first update, and get during it all tokens that the schedule allows at the end of this update.
//
// If another process computes a reward (waits_for_rewards) and n > 1, completions are continued
// only during the first n - 1 of the n updates, and may have at most max_length * i / (n - 1)
// tokens, rounded up, after i of them. So they are finished one update earlier, and their rewards
// are computed during the last update.
//
// With s = 0, there is no such schedule: the completions of a generation are begun and finished
// just before the first update on it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "colossal/tune/rollout/generation.h"

namespace colossal::tune {

// The completions, in the order in which they were begun, which is the order in which they are
// trained on. Not thread-safe.
class BegunCompletions {
 public:
  struct Options {
    int64_t max_staleness = 0;  // s, in generations
    int64_t updates = 1;        // updates per generation
    int64_t max_length = 1;     // most tokens of a completion
    // Whether a reward of the run comes from another process (is_external(), rewards.h).
    bool waits_for_rewards = false;
  };
  explicit BegunCompletions(const Options& options) : options_(options) {}
  // Returns the number of updates during which a completion is continued: n, or n - 1 if
  // waits_for_rewards and n > 1. Requires max_staleness > 0.
  static int64_t parts(const Options& options);

  // Returns how many completions must be begun so that this object holds `count` completions; 0 if
  // it holds `count` or more.
  int64_t missing(int64_t count) const;
  // Adds a completion that has no tokens yet, after all other completions.
  void begin(ScoredCompletion completion) { begun_.push_back(std::move(completion)); }

  // A completion to continue by at most max_new_tokens tokens. Valid until the next call of
  // begin(), take() or restore().
  struct Continuation {
    ScoredCompletion* completion;
    int64_t max_new_tokens;
  };
  // Returns the completions among the first `count` that are not finished, i.e. have neither an end
  // token nor max_length tokens. max_new_tokens is what each lacks to max_length. At least `count`
  // completions must have been begun.
  std::vector<Continuation> unfinished(int64_t count);
  // Returns the completions to continue during the next update, with the tokens that the schedule
  // above allows. update: number of the update on the current generation, from 0. count:
  // completions per generation. take() must already have removed the current generation. Requires
  // max_staleness > 0.
  std::vector<Continuation> to_continue_during(int64_t update, int64_t count);
  // Appends newly sampled tokens to a completion. version: number of generations on which the
  // weights that sampled them had been trained (ScoredCompletion::versions).
  static void append(ScoredCompletion& to, const Completion& sampled, int64_t version);
  // Returns the completions that are finished and have no rewards yet. The pointers are valid until
  // the next call of begin(), take() or restore().
  std::vector<ScoredCompletion*> unrewarded();
  // Whether all of the first `count` completions have rewards. There must be at least `count`.
  bool are_rewarded(int64_t count) const;
  // Returns the completion with this ScoredCompletion::number. The reference is valid until the
  // next call of begin(), take() or restore(). Throws InternalError if there is none.
  ScoredCompletion& with_number(int64_t number);
  // Removes and returns the first `count` completions, which must all be finished. Throws
  // InternalError if there are fewer.
  std::vector<ScoredCompletion> take(int64_t count);

  // state() returns all completions, for a checkpoint; restore() replaces them by such a state.
  nlohmann::json state() const { return to_json(begun_); }
  void restore(const nlohmann::json& state) { begun_ = completions_from_json(state); }
  // Deletes the rewards of all completions, so that they are computed again. To be called if a
  // resumed run has a different tune.reward.
  void forget_rewards();

 private:
  bool is_finished(const ScoredCompletion& completion) const;

  Options options_;
  std::vector<ScoredCompletion> begun_;
};

}  // namespace colossal::tune
