#include "colossal/serve/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace colossal::serve {

BeamSearch::BeamSearch(const BeamSearchOptions& options, std::vector<int32_t> end_tokens,
                       int64_t most)
    : options_(options), end_tokens_(std::move(end_tokens)), most_(most) {}

// Enough candidates that at least `width` of them are not end tokens.
int64_t BeamSearch::num_candidates() const {
  return std::max<int64_t>(2, 1 + std::ssize(end_tokens_)) * options_.width;
}

std::vector<BeamSearch::Continuation> BeamSearch::best_of(
    const std::vector<std::vector<Candidate>>& candidates) const {
  std::vector<Continuation> all;
  for (size_t beam = 0; beam < candidates.size(); ++beam) {
    for (const auto& [token, logprob] : candidates[beam]) {
      if (!std::isfinite(logprob)) continue;  // the token is masked
      all.push_back({static_cast<int64_t>(beam), token, beams_[beam].score + logprob});
    }
  }
  std::ranges::stable_sort(all, std::greater(), &Continuation::score);
  if (std::ssize(all) > num_candidates()) all.resize(num_candidates());
  return all;
}

bool BeamSearch::is_end(int32_t token) const {
  return std::ranges::find(end_tokens_, token) != end_tokens_.end();
}

double BeamSearch::scaled(double score, int64_t length) const {
  return score / std::pow(static_cast<double>(length), options_.length_penalty);
}

// Of texts with equal scores, the one that finished first stays first.
void BeamSearch::finish(const Continuation& continuation, FinishReason reason) {
  BeamText text{.tokens = beams_[continuation.parent].tokens,
                .score = scaled(continuation.score, length_ + 1),
                .reason = reason};
  if (!is_end(continuation.token.token)) text.tokens.push_back(continuation.token);
  const auto place =
      std::ranges::upper_bound(finished_, text.score, std::greater(), &BeamText::score);
  finished_.insert(place, std::move(text));
  if (std::ssize(finished_) > options_.width) finished_.pop_back();
}

// Same as _check_early_stop_heuristic() in transformers.
bool BeamSearch::may_improve() const {
  if (!is_full()) return true;
  if (options_.early_stopping == EarlyStopping::at_width) return false;
  const bool longest =
      options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0;
  return scaled(beams_.front().score, longest ? most_ : length_) > finished_.back().score;
}

std::vector<BeamSearch::Continuation> BeamSearch::advance(
    const std::vector<std::vector<Candidate>>& candidates, const IsComplete& is_complete) {
  std::vector<Continuation> goes_on;
  const std::vector<Continuation> best = best_of(candidates);
  const bool at_length = length_ + 1 == most_;
  for (size_t rank = 0; rank < best.size(); ++rank) {
    const bool may_end = std::cmp_less(rank, options_.width);
    // Stops before calling is_complete(), which may be slow, for candidates that can no longer
    // matter.
    if (!may_end && (at_length || std::ssize(goes_on) == options_.width)) break;
    const bool is_stopped =
        is_end(best[rank].token.token) || (is_complete && is_complete(best[rank]));
    if (!is_stopped && !at_length) {
      if (std::ssize(goes_on) < options_.width) goes_on.push_back(best[rank]);
    } else if (may_end) {
      finish(best[rank], is_stopped ? FinishReason::stop : FinishReason::length);
    }
  }
  std::vector<Beam> beams;
  for (const auto& [parent, token, score] : goes_on) {
    beams.push_back({beams_[parent].tokens, score});
    beams.back().tokens.push_back(token);
  }
  ++length_;
  beams_ = std::move(beams);
  if (!beams_.empty() && !may_improve()) beams_.clear();
  if (beams_.empty()) goes_on.clear();
  return goes_on;
}

}  // namespace colossal::serve
