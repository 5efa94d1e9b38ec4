#include "colossal/serve/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

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
    throw Error(kNoToken);
  }
  return static_cast<int32_t>(most - values);
}

// Throws ConfigError if the value is outside of [least, most]; outside of (least, most] if `open`.
void require_within(std::string_view flag, double value, double least, double most,
                    bool open = false) {
  if (value >= least && value <= most && !(open && value == least)) return;
  throw ConfigError(fmt::format("{}={}: must be {} {} and at most {}", flag, value,
                                open ? "above" : "at least", least, most));
}

void require_tokens(std::string_view option, const std::vector<int32_t>& tokens,
                    int64_t vocabulary) {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < vocabulary) continue;
    throw ConfigError(fmt::format("{}: token {} is outside the model's vocabulary of {}", option,
                                  token, vocabulary));
  }
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
  require_within("encoder_repetition_penalty", options.encoder_repetition_penalty, 0, kMost,
                 /*open=*/true);
  require_within("--presence-penalty", options.presence_penalty, -kMost, kMost);
  require_within("--frequency-penalty", options.frequency_penalty, -kMost, kMost);
  for (const auto& [token, bias] : options.logit_bias) {
    require_tokens("logit_bias", {token}, vocabulary);
    require_within("logit_bias", bias, -kMost, kMost);
  }
  for (const auto& [name, tokens] :
       {std::pair("allowed_tokens", &options.allowed_tokens),
        std::pair("suppress_tokens", &options.suppress_tokens),
        std::pair("begin_suppress_tokens", &options.begin_suppress_tokens),
        std::pair("forced_eos_token_id", &options.forced_eos_tokens)}) {
    require_tokens(name, *tokens, vocabulary);
  }
  if (options.forced_bos_token) {
    require_tokens("forced_bos_token_id", {*options.forced_bos_token}, vocabulary);
  }
  for (const std::vector<int32_t>& word : options.bad_words) {
    require_tokens("bad_words_ids", word, vocabulary);
  }
  for (const auto& [tokens, bias] : options.sequence_bias) {
    require_tokens("sequence_bias", tokens, vocabulary);
    require_within("sequence_bias", bias, -kMost, kMost);
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

double random_number(const SamplingOptions& options, int64_t position) {
  return random_uniform(random_key(options.seed, 0, "sample"), 0, static_cast<uint64_t>(position));
}

int32_t sample(const at::Tensor& logits, const SamplingOptions& options, int64_t position) {
  const std::vector<TokenProbability> all = distribution(logits, options);
  double rest = random_number(options, position);
  for (const auto& [token, probability] : all) {
    rest -= probability;
    if (rest < 0) return token;
  }
  return all.back().token;
}

}  // namespace colossal::serve
