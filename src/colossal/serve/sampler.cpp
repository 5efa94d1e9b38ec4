#include "colossal/serve/sampler.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/random.h"

namespace colossal::serve {
namespace {

struct Candidate {
  int64_t token;
  double logit;
};

// Most likely first; of equals the lower token, so that a draw never depends on sort's whims.
bool more_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// Weights of the candidates kept, relative to the first.
std::vector<double> kept_weights(const std::vector<Candidate>& candidates,
                                 const SamplingOptions& options) {
  std::vector<double> weights;
  double total = 0;
  for (const Candidate& candidate : candidates) {
    weights.push_back(std::exp((candidate.logit - candidates[0].logit) / options.temperature));
    total += weights.back();
  }
  double reached = 0;
  size_t kept = 0;
  while (kept < weights.size() && reached < options.top_p * total) reached += weights[kept++];
  weights.resize(std::max<size_t>(1, kept));
  return weights;
}

}  // namespace

void validate(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature)) {
    throw ConfigError(fmt::format("--temperature={}: must be 0 (the most likely token) or more",
                                  options.temperature));
  }
  if (options.top_k < 0) {
    throw ConfigError(fmt::format("--top-k={}: must be 0 (all tokens) or more", options.top_k));
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    throw ConfigError(fmt::format("--top-p={}: must be above 0 and at most 1", options.top_p));
  }
}

int64_t sample(const at::Tensor& logits, const SamplingOptions& options, int64_t sequence,
               int64_t position) {
  const at::Tensor wide = logits.to(at::kDouble).contiguous();
  const double* values = wide.const_data_ptr<double>();
  std::vector<Candidate> candidates;
  for (int64_t token = 0; token < wide.numel(); ++token)
    candidates.push_back({token, values[token]});
  if (options.temperature == 0) {
    return std::min_element(candidates.begin(), candidates.end(), more_likely)->token;
  }
  if (options.top_k > 0 && options.top_k < wide.numel()) {
    std::nth_element(candidates.begin(), candidates.begin() + options.top_k - 1, candidates.end(),
                     more_likely);
    candidates.resize(options.top_k);
  }
  std::sort(candidates.begin(), candidates.end(), more_likely);
  const std::vector<double> weights = kept_weights(candidates, options);
  double total = 0;
  for (double weight : weights) total += weight;
  const RandomKey key = random_key(options.seed, 0, "sample");
  double rest =
      random_uniform(key, static_cast<uint64_t>(sequence), static_cast<uint64_t>(position)) * total;
  for (size_t i = 0; i < weights.size(); ++i) {
    rest -= weights[i];
    if (rest < 0) return candidates[i].token;
  }
  return candidates[weights.size() - 1].token;
}

}  // namespace colossal::serve
