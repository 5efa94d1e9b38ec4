#include "colossal/ops/attention/attention_rule.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "colossal/base/error.h"
#include "colossal/ops/flat_tensor.h"

namespace colossal::ops {
namespace {

// A bound beyond all positions. Half of the maximum, so that sums with positions do not overflow.
constexpr int64_t kFarther = std::numeric_limits<int64_t>::max() / 2;

// Returns ALiBi's slope of head `head` for a power of two of heads: 2^(-8 (head + 1) / heads).
double slope_of(int64_t head, int64_t heads) {
  return std::exp2(-8 * static_cast<double>(head + 1) / static_cast<double>(heads));
}

template <typename Number>
void append(std::vector<Number>& to, const std::vector<Number>& numbers) {
  to.push_back(static_cast<Number>(numbers.size()));
  to.insert(to.end(), numbers.begin(), numbers.end());
}

// Reads a packed list: single numbers with next(), vectors that append() wrote with next_vector().
template <typename Number>
class Reader {
 public:
  explicit Reader(at::ArrayRef<Number> from) : from_(from) {}

  Number next() {
    COLOSSAL_CHECK(place_ < from_.size(), "an attention rule of {} numbers", from_.size());
    return from_[place_++];
  }
  std::vector<Number> next_vector() {
    std::vector<Number> numbers(static_cast<size_t>(next()));
    for (Number& number : numbers) number = next();
    return numbers;
  }

 private:
  at::ArrayRef<Number> from_;
  size_t place_ = 0;
};

template <typename Number>
std::vector<Number> vector_of(std::span<const Number> numbers) {
  return {numbers.begin(), numbers.end()};
}

}  // namespace

std::vector<double> alibi_slopes(int64_t heads) {
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<double> slopes;
  for (int64_t head = 0; head < below; ++head) slopes.push_back(slope_of(head, below));
  for (int64_t head = below; head < heads; ++head) {
    slopes.push_back(slope_of(2 * (head - below), 2 * below));
  }
  return slopes;
}

AttentionRule::AttentionRule(const AttentionOptions& options, int64_t head_size)
    : causal(options.causal),
      window(options.window),
      prefix_lengths(vector_of(options.prefix_lengths)),
      document_lengths(vector_of(options.document_lengths)),
      scale(options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(head_size))),
      soft_cap(options.soft_cap),
      alibi_slopes(vector_of(options.alibi_slopes)),
      dropout(options.dropout),
      random_key(options.random_key),
      head_begin(options.head_begin),
      query_positions(options.query_positions) {
  if (dropout > 0) sample_ids = vector_of(options.sample_ids);
}

Range AttentionRule::seen_by_any(const Range& queries) const {
  const int64_t last = queries.end - 1;
  return {window > 0 ? queries.begin - window + 1 : -kFarther, causal       ? last + 1
                                                               : window > 0 ? last + window
                                                                            : kFarther};
}

Range AttentionRule::seen_by_all(const Range& queries) const {
  const int64_t last = queries.end - 1;
  return {window > 0 ? last - window + 1 : -kFarther, causal       ? queries.begin + 1
                                                      : window > 0 ? queries.begin + window
                                                                   : kFarther};
}

int64_t AttentionRule::prefix_length(int64_t sample) const {
  return prefix_lengths.empty() ? 0 : prefix_lengths[sample];
}

bool AttentionRule::sees_any(const std::vector<Range>& queries,
                             const std::vector<Range>& keys) const {
  int64_t prefix = 0;
  for (const int64_t length : prefix_lengths) prefix = std::max(prefix, length);
  for (const Range& of_queries : queries) {
    if (of_queries.empty()) continue;
    for (const Range& of_keys : keys) {
      if (of_keys.empty()) continue;
      if (of_keys.begin < prefix) return true;
      if (!intersect(seen_by_any(of_queries), of_keys).empty()) return true;
    }
  }
  return false;
}

AttentionRule::Packed AttentionRule::packed() const {
  Packed packed{{causal ? 1 : 0, window, pack_key(random_key), head_begin},
                {scale, soft_cap, dropout}};
  append(packed.integers, sample_ids);
  append(packed.integers, prefix_lengths);
  append(packed.integers, document_lengths);
  append(packed.integers, pack_runs(query_positions));
  append(packed.numbers, alibi_slopes);
  return packed;
}

AttentionRule AttentionRule::unpacked(at::IntArrayRef integers, at::ArrayRef<double> numbers) {
  Reader<int64_t> integer(integers);
  Reader<double> number(numbers);
  AttentionRule rule;
  rule.causal = integer.next() != 0;
  rule.window = integer.next();
  rule.random_key = unpack_key(integer.next());
  rule.head_begin = integer.next();
  rule.sample_ids = integer.next_vector();
  rule.prefix_lengths = integer.next_vector();
  rule.document_lengths = integer.next_vector();
  rule.query_positions = unpack_runs(integer.next_vector());
  rule.scale = number.next();
  rule.soft_cap = number.next();
  rule.dropout = number.next();
  rule.alibi_slopes = number.next_vector();
  return rule;
}

void AttentionRule::save(torch::autograd::AutogradContext* context) const {
  const Packed rule = packed();
  context->saved_data["rule_integers"] = rule.integers;
  context->saved_data["rule_numbers"] = rule.numbers;
}

AttentionRule AttentionRule::saved(torch::autograd::AutogradContext* context) {
  auto& data = context->saved_data;
  return unpacked(data["rule_integers"].toIntVector(), data["rule_numbers"].toDoubleVector());
}

}  // namespace colossal::ops
