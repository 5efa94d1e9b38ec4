#include "colossal/tune/rollout/begun_completions.h"

#include <algorithm>
#include <utility>

#include "colossal/base/error.h"

namespace colossal::tune {

bool BegunCompletions::is_finished(const ScoredCompletion& completion) const {
  return completion.completion.ended ||
         std::ssize(completion.completion.tokens) >= options_.max_length;
}

int64_t BegunCompletions::missing(int64_t count) const {
  return std::max<int64_t>(0, count - std::ssize(begun_));
}

std::vector<BegunCompletions::Continuation> BegunCompletions::unfinished(int64_t count) {
  std::vector<Continuation> found;
  for (int64_t i = 0; i < count; ++i) {
    if (is_finished(begun_[i])) continue;
    found.push_back({&begun_[i], options_.max_length - std::ssize(begun_[i].completion.tokens)});
  }
  return found;
}

int64_t BegunCompletions::parts(const Options& options) {
  const int64_t all = options.max_staleness * options.updates;
  return options.waits_for_rewards ? std::max<int64_t>(1, all - 1) : all;
}

std::vector<BegunCompletions::Continuation> BegunCompletions::to_continue_during(int64_t update,
                                                                                 int64_t count) {
  std::vector<Continuation> found;
  const int64_t all = options_.max_staleness * options_.updates;
  const int64_t parts = BegunCompletions::parts(options_);
  for (int64_t i = 0; i < std::ssize(begun_); ++i) {
    const int64_t generations_left = std::min(i / count, options_.max_staleness - 1);
    const int64_t left = (generations_left + 1) * options_.updates - 1 - update;
    const int64_t done = std::min(all - left, parts);
    const int64_t allowed = (options_.max_length * done + parts - 1) / parts;
    const int64_t more = allowed - std::ssize(begun_[i].completion.tokens);
    if (!is_finished(begun_[i]) && more > 0) found.push_back({&begun_[i], more});
  }
  return found;
}

void BegunCompletions::append(ScoredCompletion& to, const Completion& sampled, int64_t version) {
  Completion& whole = to.completion;
  whole.tokens.insert(whole.tokens.end(), sampled.tokens.begin(), sampled.tokens.end());
  whole.log_probabilities.insert(whole.log_probabilities.end(), sampled.log_probabilities.begin(),
                                 sampled.log_probabilities.end());
  whole.entropy += sampled.entropy;
  whole.ended = sampled.ended;
  to.versions.resize(whole.tokens.size(), version);
}

std::vector<ScoredCompletion*> BegunCompletions::unrewarded() {
  std::vector<ScoredCompletion*> found;
  for (ScoredCompletion& each : begun_) {
    if (is_finished(each) && each.rewards.empty()) found.push_back(&each);
  }
  return found;
}

bool BegunCompletions::are_rewarded(int64_t count) const {
  return std::all_of(begun_.begin(), begun_.begin() + count,
                     [](const ScoredCompletion& each) { return !each.rewards.empty(); });
}

ScoredCompletion& BegunCompletions::with_number(int64_t number) {
  const auto found = std::ranges::find(begun_, number, &ScoredCompletion::number);
  COLOSSAL_CHECK(found != begun_.end(), "completion {} of {}", number, begun_.size());
  return *found;
}

std::vector<ScoredCompletion> BegunCompletions::take(int64_t count) {
  COLOSSAL_CHECK(std::ssize(begun_) >= count, "{} completions of {}", begun_.size(), count);
  const auto end = begun_.begin() + count;
  std::vector<ScoredCompletion> taken(std::make_move_iterator(begun_.begin()),
                                      std::make_move_iterator(end));
  begun_.erase(begun_.begin(), end);
  return taken;
}

void BegunCompletions::forget_rewards() {
  for (ScoredCompletion& each : begun_) each.rewards.clear();
}

}  // namespace colossal::tune
