#include "colossal/serve/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace colossal::serve {

GeneratedToken with_logprobs(const at::Tensor& logits, int32_t token, int64_t most_likely) {
  const double* values = logits.const_data_ptr<double>();
  const int64_t vocabulary = logits.numel();
  const double most = *std::max_element(values, values + vocabulary);
  // With d = logit - largest logit: sum of exp(d), and sum of exp(d) * d.
  double sum = 0, distances = 0;
  for (int64_t i = 0; i < vocabulary; ++i) {
    const double weight = std::exp(values[i] - most);
    sum += weight;
    if (weight > 0) distances += weight * (values[i] - most);
  }
  const double logsumexp = most + std::log(sum);
  GeneratedToken described{
      .token = token,
      .logprob = values[token] - logsumexp,
      .entropy = std::log(sum) - distances / sum,
      .rank = 1 + std::count_if(values, values + vocabulary,
                                [&](double value) { return value > values[token]; })};
  if (most_likely == 0) return described;
  std::vector<int32_t> tokens(vocabulary);
  std::iota(tokens.begin(), tokens.end(), 0);
  const int64_t count = std::min(most_likely, vocabulary);
  std::partial_sort(
      tokens.begin(), tokens.begin() + count, tokens.end(),
      [&](int32_t a, int32_t b) { return values[a] != values[b] ? values[a] > values[b] : a < b; });
  for (int64_t i = 0; i < count; ++i) {
    described.top.push_back({tokens[i], values[tokens[i]] - logsumexp});
  }
  return described;
}

}  // namespace colossal::serve
