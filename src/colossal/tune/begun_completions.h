// Completions that a run has begun and has not learned from yet. They are learned from in the order
// of their prompts, so that none is lost or learned from twice, and short ones are not preferred.
//
// With a staleness of s, completions are begun s generations before they are learned from, and go
// on beside each update in between, with the weights from before it. Beside each a completion may
// have this many more of its tokens than beside the one before: their most, divided by the number
// of these updates. So sampling takes as many passes as that beside each update, instead of as many
// as the longest completion has tokens, and nothing depends on how fast a rank samples. Where
// rewards are waited for, completions have all of their tokens an update earlier, if there are
// several.
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
    int64_t updates = 1;        // that learn from a generation
    int64_t max_length = 1;     // the most tokens of a completion
    bool waits_for_rewards = false;
  };
  explicit BegunCompletions(const Options& options) : options_(options) {}
  // Beside how many updates a completion goes on.
  static int64_t parts(const Options& options);

  // How many more must be begun for there to be `count`.
  int64_t missing(int64_t count) const;
  void begin(ScoredCompletion completion) { begun_.push_back(std::move(completion)); }

  // A completion that goes on, by at most this many tokens.
  struct Continuation {
    ScoredCompletion* completion;
    int64_t max_new_tokens;
  };
  // Those of the first `count` that have neither their end nor their most tokens.
  std::vector<Continuation> unfinished(int64_t count);
  // Those that go on beside update `update`, from 0, of a generation of `count` that was taken.
  std::vector<Continuation> beside_update(int64_t update, int64_t count);
  // Appends what a model sampled that has learned from `version` generations.
  static void append(ScoredCompletion& to, const Completion& sampled, int64_t version);
  // Those that have all of their tokens and no rewards yet.
  std::vector<ScoredCompletion*> to_be_rewarded();
  // Whether the first `count` have theirs.
  bool are_rewarded(int64_t count) const;
  // The completion of this number, which must be there.
  ScoredCompletion& with_number(int64_t number);
  // Takes the first completions, which all have their end or their most tokens.
  std::vector<ScoredCompletion> take(int64_t count);

  nlohmann::json state() const { return to_json(begun_); }
  void restore(const nlohmann::json& state) { begun_ = completions_from_json(state); }
  // Where a run goes on with other rewards.
  void forget_rewards();

 private:
  bool is_finished(const ScoredCompletion& completion) const;

  Options options_;
  std::vector<ScoredCompletion> begun_;  // in the order in which they are learned from
};

}  // namespace colossal::tune
