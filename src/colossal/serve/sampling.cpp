#include "colossal/serve/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "colossal/base/error.h"
#include "colossal/base/random.h"

namespace colossal::serve {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Candidate {
  int32_t token;
  double logit;
  double weight = 0;  // exp((logit - most likely logit) / temperature)
};
using Candidates = std::vector<Candidate>;

// Orders by logit, most likely first. Orders equal logits by token, so that draws do not depend on
// the implementation of std::sort.
bool more_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

double total_weight(const Candidates& candidates) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  return total;
}

void keep_most_likely(Candidates& candidates, int64_t count) {
  if (count >= std::ssize(candidates)) return;
  std::nth_element(candidates.begin(), candidates.begin() + count - 1, candidates.end(),
                   more_likely);
  candidates.resize(count);
}

// Keeps the fewest most likely candidates that reach probability p. To sort fewer, first drops
// candidates below (1 - p) / n: all of them together are below 1 - p, so the kept ones reach p
// without them.
void keep_nucleus(Candidates& candidates, double p) {
  const double total = total_weight(candidates);
  const double least = (1 - p) * total / static_cast<double>(candidates.size());
  std::erase_if(candidates, [&](const Candidate& each) { return each.weight < least; });
  std::sort(candidates.begin(), candidates.end(), more_likely);
  double reached = 0;
  size_t kept = 0;
  while (kept < candidates.size() && reached < p * total) reached += candidates[kept++].weight;
  candidates.resize(std::max<size_t>(1, kept));
}

// Keeps the fewest most typical candidates that reach probability p. Candidates are the more
// typical, the nearer their surprise -log(probability) is to the entropy.
void keep_typical(Candidates& candidates, double p) {
  const double total = total_weight(candidates);
  double entropy = 0;
  for (const Candidate& each : candidates) {
    const double probability = each.weight / total;
    if (probability > 0) entropy -= probability * std::log(probability);
  }
  const auto distance = [&](const Candidate& each) {
    return std::abs(-std::log(each.weight / total) - entropy);
  };
  Candidates sorted = candidates;
  std::sort(sorted.begin(), sorted.end(), [&](const Candidate& a, const Candidate& b) {
    const double of_a = distance(a), of_b = distance(b);
    return of_a != of_b ? of_a < of_b : a.token < b.token;
  });
  double reached = 0;
  size_t last = 0;
  while (last < sorted.size() && (reached += sorted[last].weight / total) < p) ++last;
  const double farthest = distance(sorted[std::min(last, sorted.size() - 1)]);
  std::erase_if(candidates, [&](const Candidate& each) { return distance(each) > farthest; });
}

Candidates candidates_of(const at::Tensor& logits, double temperature, double most) {
  const double* values = logits.const_data_ptr<double>();
  Candidates candidates;
  candidates.reserve(logits.numel());
  for (int64_t token = 0; token < logits.numel(); ++token) {
    if (values[token] == -kInfinity) continue;
    candidates.push_back({static_cast<int32_t>(token), values[token],
                          std::exp((values[token] - most) / temperature)});
  }
  return candidates;
}

// Returns the token with the largest logit; of equal logits, the lowest token.
int32_t most_likely(const at::Tensor& logits) {
  const double* values = logits.const_data_ptr<double>();
  const double* most = std::max_element(values, values + logits.numel());
  if (!std::isfinite(*most) || std::any_of(values, values + logits.numel(),
                                           [](double value) { return std::isnan(value); })) {
    throw Error("no token can be chosen: the logits are not finite, or no token is allowed next");
  }
  return static_cast<int32_t>(most - values);
}

void mask(double* logits, std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) logits[token] = -kInfinity;
}

void mask_all_but(const at::Tensor& logits, std::span<const int32_t> allowed) {
  auto* values = logits.mutable_data_ptr<double>();
  std::vector<std::pair<int32_t, double>> kept;
  for (const int32_t token : allowed) kept.emplace_back(token, values[token]);
  std::fill_n(values, logits.numel(), -kInfinity);
  for (const auto& [token, logit] : kept) values[token] = logit;
}

void penalize_repetition(double* logits, const SeenTokens& seen, double penalty) {
  std::unordered_map<int32_t, int64_t> once;
  for (const std::span<const int32_t> tokens : {seen.prompt, seen.generated}) {
    for (const int32_t token : tokens) {
      if (once[token]++ > 0) continue;
      logits[token] = logits[token] < 0 ? logits[token] * penalty : logits[token] / penalty;
    }
  }
}

void penalize_generated(double* logits, std::span<const int32_t> generated,
                        const SamplingOptions& options) {
  std::unordered_map<int32_t, int64_t> counts;
  for (const int32_t token : generated) ++counts[token];
  for (const auto& [token, count] : counts) {
    logits[token] -=
        options.frequency_penalty * static_cast<double>(count) + options.presence_penalty;
  }
}

// Throws ConfigError if the value is outside of [least, most]; outside of (least, most] if `open`.
void require_within(std::string_view flag, double value, double least, double most,
                    bool open = false) {
  if (value >= least && value <= most && !(open && value == least)) return;
  throw ConfigError(fmt::format("{}={}: must be {} {} and at most {}", flag, value,
                                open ? "above" : "at least", least, most));
}

void require_token(std::string_view flag, int32_t token, int64_t vocabulary) {
  if (token >= 0 && token < vocabulary) return;
  throw ConfigError(
      fmt::format("{}: token {} is outside the model's vocabulary of {}", flag, token, vocabulary));
}

}  // namespace

void validate(const SamplingOptions& options, int64_t vocabulary) {
  constexpr double kMost = std::numeric_limits<double>::max();
  require_within("--temperature", options.temperature, 0, kMost);
  if (options.top_k < 0) {
    throw ConfigError(fmt::format("--top-k={}: must be 0 (all tokens) or more", options.top_k));
  }
  require_within("--top-p", options.top_p, 0, 1, /*open=*/true);
  require_within("--min-p", options.min_p, 0, 1);
  require_within("--typical-p", options.typical_p, 0, 1, /*open=*/true);
  require_within("--repetition-penalty", options.repetition_penalty, 0, kMost, /*open=*/true);
  require_within("--presence-penalty", options.presence_penalty, -kMost, kMost);
  require_within("--frequency-penalty", options.frequency_penalty, -kMost, kMost);
  for (const auto& [token, bias] : options.logit_bias) {
    require_token("logit_bias", token, vocabulary);
    require_within("logit_bias", bias, -kMost, kMost);
  }
  for (const int32_t token : options.allowed_tokens) {
    require_token("allowed_tokens", token, vocabulary);
  }
  for (const int32_t token : options.bad_tokens) require_token("bad_tokens", token, vocabulary);
}

void process_logits(const at::Tensor& logits, const SamplingOptions& options,
                    const SeenTokens& seen, std::span<const int32_t> end_tokens) {
  auto* values = logits.mutable_data_ptr<double>();
  if (!options.allowed_tokens.empty()) mask_all_but(logits, options.allowed_tokens);
  mask(values, options.bad_tokens);
  if (std::ssize(seen.generated) < options.min_tokens) mask(values, end_tokens);
  for (const auto& [token, bias] : options.logit_bias) values[token] += bias;
  if (options.repetition_penalty != 1) {
    penalize_repetition(values, seen, options.repetition_penalty);
  }
  if (options.presence_penalty != 0 || options.frequency_penalty != 0) {
    penalize_generated(values, seen.generated, options);
  }
}

std::vector<TokenProbability> distribution(const at::Tensor& logits,
                                           const SamplingOptions& options) {
  const int32_t first = most_likely(logits);
  if (options.temperature == 0) return {{first, 1}};
  Candidates candidates =
      candidates_of(logits, options.temperature, logits.const_data_ptr<double>()[first]);
  if (options.top_k > 0) keep_most_likely(candidates, options.top_k);
  if (options.top_p < 1) keep_nucleus(candidates, options.top_p);
  if (options.min_p > 0) {
    std::erase_if(candidates, [&](const Candidate& each) { return each.weight < options.min_p; });
  }
  if (options.typical_p < 1) keep_typical(candidates, options.typical_p);
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
  const double total = total_weight(candidates);
  std::vector<TokenProbability> all;
  all.reserve(candidates.size());
  for (const Candidate& each : candidates) all.push_back({each.token, each.weight / total});
  return all;
}

int32_t sample(const at::Tensor& logits, const SamplingOptions& options, int64_t position) {
  const std::vector<TokenProbability> all = distribution(logits, options);
  double rest =
      random_uniform(random_key(options.seed, 0, "sample"), 0, static_cast<uint64_t>(position));
  for (const auto& [token, probability] : all) {
    rest -= probability;
    if (rest < 0) return token;
  }
  return all.back().token;
}

}  // namespace colossal::serve
