#include "colossal/tune/begun_completions.h"

#include <algorithm>
#include <utility>

#include "colossal/base/error.h"

namespace colossal::tune {

int64_t BegunCompletions::missing(int64_t count) const {
  return std::max<int64_t>(0, (max_staleness_ + 1) * count - std::ssize(begun_));
}

std::vector<BegunCompletions::Continuation> BegunCompletions::continuations(int64_t count) {
  std::vector<Continuation> found;
  const int64_t rounds = max_staleness_ + 1;
  for (int64_t i = 0; i < std::ssize(begun_); ++i) {
    const int64_t rounds_left = std::min(i / count, max_staleness_);
    const int64_t allowed = (max_length_ * (rounds - rounds_left) + rounds - 1) / rounds;
    const Completion& so_far = begun_[i].completion;
    const int64_t more = allowed - std::ssize(so_far.tokens);
    if (!so_far.ended && more > 0) found.push_back({&begun_[i], more});
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

std::vector<ScoredCompletion> BegunCompletions::take(int64_t count) {
  COLOSSAL_CHECK(std::ssize(begun_) >= count, "{} completions of {}", begun_.size(), count);
  const auto end = begun_.begin() + count;
  std::vector<ScoredCompletion> taken(std::make_move_iterator(begun_.begin()),
                                      std::make_move_iterator(end));
  begun_.erase(begun_.begin(), end);
  return taken;
}

}  // namespace colossal::tune
