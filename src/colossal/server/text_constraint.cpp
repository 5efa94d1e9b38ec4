#include "colossal/server/text_constraint.h"

#include <algorithm>
#include <cmath>

namespace colossal::server {

TextConstraint::TextConstraint(std::shared_ptr<CompiledRule> rule, RuleCache& cache,
                               const ServedModel& model, std::vector<int32_t> end_tokens,
                               text::AnswerBegin begin, bool reasoning)
    : rule_(std::move(rule)),
      cache_(&cache),
      model_(model),
      end_tokens_(std::move(end_tokens)),
      place_(rule_->start()) {
  prepare();
  if (!reasoning || begin == text::AnswerBegin::after_reasoning) return;
  if (begin == text::AnswerBegin::in_reasoning) phase_ = Phase::reasoning;
  if (begin == text::AnswerBegin::anywhere && model_.reasoning_token() >= 0) phase_ = Phase::begin;
}

void TextConstraint::apply(at::Tensor& logits) {
  double* const values = logits.mutable_data_ptr<double>();
  if (phase_ == Phase::reasoning) {  // an answer follows
    for (const int32_t token : end_tokens_) values[token] = -INFINITY;
    return;
  }
  if (place_.is_dead()) return;
  std::vector<std::pair<int32_t, double>> kept;
  if (rule_->may_end(place_)) {
    for (const int32_t token : end_tokens_) kept.emplace_back(token, values[token]);
  }
  if (phase_ == Phase::begin) {
    const int32_t token = model_.reasoning_token();
    kept.emplace_back(token, values[token]);
  }
  const auto mask = mask_->is_done && mask_->mask ? mask_->mask : rule_->mask(place_);
  for (int64_t token = 0; token < logits.numel(); ++token) {
    if (!mask->allows(static_cast<int32_t>(token))) values[token] = -INFINITY;
  }
  for (const auto& [token, value] : kept) values[token] = value;
}

void TextConstraint::accept(int32_t token) {
  if (phase_ == Phase::begin) {
    phase_ = token == model_.reasoning_token() ? Phase::reasoning : Phase::text;
    if (phase_ == Phase::reasoning) return;
  }
  std::string bytes = model_.bytes_of(token);
  if (phase_ == Phase::reasoning) {
    const std::string_view end = model_.reasoning_end();
    reasoning_ += bytes;
    const size_t found = reasoning_.find(end);
    if (found == std::string::npos) {
      if (reasoning_.size() > end.size()) reasoning_.erase(0, reasoning_.size() - end.size());
      return;
    }
    phase_ = Phase::text;
    // A token may go on after the marker, with white space at first.
    bytes = reasoning_.substr(found + end.size());
    bytes.erase(0, std::min(bytes.find_first_not_of(" \n\t\r"), bytes.size()));
  }
  if (place_.is_dead()) return;
  place_ = rule_->next(place_, bytes);
  finished_ = place_.is_dead() || rule_->must_end(place_);
  if (!finished_) prepare();
}

bool TextConstraint::ready() const {
  return phase_ == Phase::reasoning || place_.is_dead() || mask_->is_done;
}

}  // namespace colossal::server
