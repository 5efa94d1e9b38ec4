#include "colossal/serve/token_choice.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <span>

#include "colossal/ops/upload.h"

namespace colossal::serve {
namespace {

// Bounds the memory: there are several copies of these rows in fp64.
constexpr int64_t kRowsAtOnce = 32;

template <typename Value>
at::Tensor column(std::span<const TokenChoice> choices, Value TokenChoice::*member,
                  const at::Tensor& like) {
  std::vector<double> values;
  for (const TokenChoice& choice : choices) values.push_back(static_cast<double>(choice.*member));
  return ops::upload(at::tensor(values, at::kDouble), like.device()).unsqueeze(1);
}

// Returns the weights, [rows, vocabulary], with zeros for tokens that top_k, top_p and min_p leave
// out. logits: of the same shape; they order the tokens, the lower number first among equal ones.
at::Tensor filtered(const at::Tensor& weights, const at::Tensor& logits,
                    std::span<const TokenChoice> choices) {
  const auto [sorted, order] = at::sort(logits, /*stable=*/true, /*dim=*/-1, /*descending=*/true);
  const at::Tensor by_rank = weights.gather(-1, order);
  at::Tensor top_k = column(choices, &TokenChoice::top_k, weights);
  top_k = top_k.masked_fill(top_k <= 0, std::numeric_limits<double>::infinity());
  const at::Tensor ranks = at::arange(weights.size(1), weights.options());
  const at::Tensor likely = by_rank * (ranks < top_k);
  // What more likely tokens reach together must be below top_p.
  const at::Tensor reached = likely.cumsum(-1);
  const at::Tensor before = at::constant_pad_nd(reached.narrow(-1, 0, reached.size(1) - 1), {1, 0});
  at::Tensor top_p = column(choices, &TokenChoice::top_p, weights);
  top_p = top_p.masked_fill(top_p >= 1, std::numeric_limits<double>::infinity());
  const at::Tensor min_p = column(choices, &TokenChoice::min_p, weights);
  const at::Tensor kept =
      likely * (before < top_p * likely.sum(-1, /*keepdim=*/true)) * (likely >= min_p);
  return at::zeros_like(weights).scatter_(-1, order, kept);
}

// Returns the tokens [rows] of rows that are sampled. logits: [rows, vocabulary] fp64; most: the
// greatest of each row, [rows, 1].
at::Tensor sampled(const at::Tensor& logits, const at::Tensor& most,
                   std::span<const TokenChoice> choices) {
  at::Tensor weights =
      ((logits - most) / column(choices, &TokenChoice::temperature, logits)).exp_();
  const bool filters = std::ranges::any_of(choices, [](const TokenChoice& choice) {
    return choice.top_k > 0 || choice.top_p < 1 || choice.min_p > 0;
  });
  if (filters) weights = filtered(weights, logits, choices);
  const at::Tensor sums = weights.cumsum(-1), total = sums.narrow(-1, sums.size(1) - 1, 1);
  const at::Tensor wanted = total * column(choices, &TokenChoice::random, logits);
  const at::Tensor last = (sums < total).sum(-1);  // the last token with a weight
  return at::minimum((sums <= wanted).sum(-1), last);
}

at::Tensor choose(const at::Tensor& all, std::span<const TokenChoice> choices) {
  std::vector<int64_t> rows, random_places;
  std::vector<TokenChoice> random;
  for (const TokenChoice& choice : choices) {
    if (choice.temperature > 0) {
      random_places.push_back(std::ssize(rows));
      random.push_back(choice);
    }
    rows.push_back(choice.row);
  }
  const auto indices = [&](const std::vector<int64_t>& numbers) {
    return ops::upload(at::tensor(numbers, at::kLong), all.device());
  };
  const at::Tensor logits = all.index_select(0, indices(rows)).to(at::kDouble);
  const auto [most, likeliest] = logits.max(-1);
  at::Tensor tokens = likeliest;
  if (!random.empty()) {
    const at::Tensor places = indices(random_places);
    tokens = tokens.index_copy(
        0, places,
        sampled(logits.index_select(0, places), most.index_select(0, places).unsqueeze(1), random));
  }
  return tokens.masked_fill(most.isfinite().logical_not(), -1);  // the greatest of NaN is NaN
}

}  // namespace

std::optional<TokenChoice> choice_on_device(const SamplingOptions& options, int64_t row,
                                            int64_t position) {
  SamplingOptions others = options;
  const SamplingOptions defaults;
  others.temperature = defaults.temperature;
  others.top_k = defaults.top_k;
  others.top_p = defaults.top_p;
  others.min_p = defaults.min_p;
  others.seed = defaults.seed;
  if (others != defaults) return std::nullopt;
  return TokenChoice{.row = row,
                     .temperature = options.temperature,
                     .top_k = options.top_k,
                     .top_p = options.top_p,
                     .min_p = options.min_p,
                     .random = random_number(options, position)};
}

at::Tensor choose_tokens(const at::Tensor& logits, const std::vector<TokenChoice>& choices) {
  std::vector<at::Tensor> tokens;
  for (int64_t begin = 0; begin < std::ssize(choices); begin += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, std::ssize(choices) - begin);
    tokens.push_back(choose(logits, std::span(choices).subspan(begin, count)));
  }
  return tokens.size() == 1 ? tokens.front() : at::cat(tokens);
}

}  // namespace colossal::serve
