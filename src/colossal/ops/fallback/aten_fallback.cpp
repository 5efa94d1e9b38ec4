#include "colossal/ops/fallback/aten_fallback.h"
#include "colossal/ops/attention/paged_attention.h"

#include <ATen/ATen.h>

#include <array>

#include "colossal/base/random.h"
#include "colossal/ops/attention/attention_rule.h"
#include "colossal/ops/dropout.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/random.h"
#include "colossal/ops/upload.h"

namespace colossal::ops::aten_fallback {

void adamw(const at::Tensor& master, const std::optional<at::Tensor>& working,
           const at::Tensor& first_moment, const at::Tensor& second_moment,
           const at::Tensor& gradient, double gradient_scale, double beta1, double beta2,
           double decay, double step_size, double root_correction, double epsilon) {
  const at::ScalarType type = master.scalar_type();
  const at::Tensor g = gradient.to(type) * gradient_scale;
  const at::Tensor first = first_moment.to(type), second = second_moment.to(type);
  first.lerp_(g, 1 - beta1);
  second.mul_(beta2).addcmul_(g, g, 1 - beta2);
  const at::Tensor denominator = (second.sqrt() / root_correction).add_(epsilon);
  master.mul_(decay).addcdiv_(first, denominator, -step_size);
  first_moment.copy_(first);
  second_moment.copy_(second);
  if (working.has_value() && working->defined()) working->copy_(master);
}

void accumulate(const at::Tensor& to, const at::Tensor& from) {
  to.add_(from);
}

void convert_copy(const at::Tensor& to, const at::Tensor& from, double scale) {
  if (scale == 1) {
    to.copy_(from);
  } else {
    to.copy_(from.to(at::promote_types(compute_type(to.scalar_type()), from.scalar_type())) *
             scale);
  }
}

// Without a copy of all values in fp64.
at::Tensor squared_norm(const at::Tensor& values) {
  return at::linalg_vector_norm(values, 2, {}, /*keepdim=*/false, at::kDouble).square();
}

bool all_finite(const at::Tensor& values) {
  return at::isfinite(values).all().item<bool>();
}

void fill_normal(const at::Tensor& values, int64_t begin, int64_t key, double mean,
                 double deviation) {
  const at::Tensor host = at::empty(values.sizes(), values.options().device(at::kCPU));
  ops::fill_normal(host, begin, unpack_key(key), mean, deviation);
  values.copy_(host);
}

namespace {

constexpr int64_t kLowWord = 0xFFFFFFFF;

// Words of 32 bits are int64 tensors here.
at::Tensor high_word(const at::Tensor& number) {
  return number.bitwise_right_shift(32).bitwise_and(kLowWord);
}

// philox() of random.h. counter: four tensors, which broadcast.
std::array<at::Tensor, 4> philox(RandomKey key, std::array<at::Tensor, 4> counter) {
  for (int round = 0; round < 10; ++round) {
    const at::Tensor first = counter[0] * int64_t{0xD2511F53};
    const at::Tensor second = counter[2] * int64_t{0xCD9E8D57};
    counter = {high_word(second).bitwise_xor(counter[1]).bitwise_xor(int64_t{key.low}),
               second.bitwise_and(kLowWord),
               high_word(first).bitwise_xor(counter[3]).bitwise_xor(int64_t{key.high}),
               first.bitwise_and(kLowWord)};
    key.low += 0x9E3779B9;
    key.high += 0xBB67AE85;
  }
  return counter;
}

// Returns words `begin` to begin + count - 1 of the rows (major, minor), [rows, count]. major,
// minor: [rows].
at::Tensor random_words(RandomKey key, const at::Tensor& major, const at::Tensor& minor,
                        int64_t begin, int64_t count) {
  const int64_t first = begin / kRandomGroup;
  const int64_t last = (begin + count + kRandomGroup - 1) / kRandomGroup;
  const auto of_rows = [](const at::Tensor& rows) { return rows.view({-1, 1, 1}); };
  const at::Tensor blocks =
      at::arange(first * kRandomGroupBlocks, last * kRandomGroupBlocks, major.options())
          .view({1, -1, kRandomGroupBlocks});
  const std::array<at::Tensor, 4> words = philox(
      key,
      {of_rows(major).bitwise_and(kLowWord), of_rows(high_word(major)), of_rows(minor), blocks});
  return at::stack(words, 2).flatten(1).narrow(1, begin - first * kRandomGroup, count);
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, double probability, int64_t key, at::IntArrayRef sample_ids,
                   const at::Tensor& positions, int64_t channel_begin) {
  if (x.numel() == 0) return x.contiguous();
  const at::ScalarType type = compute_type(x.scalar_type());
  const kernels::DropoutRule rule = dropout_rule(probability);
  const int64_t batch = x.size(0), sequence = x.size(1), rows = batch * sequence;
  const at::Tensor samples = upload(at::tensor(sample_ids, at::kLong), x.device());
  const at::Tensor words =
      random_words(unpack_key(key), samples.unsqueeze(1).expand({batch, sequence}).reshape({rows}),
                   upload(positions, x.device()).expand({batch, sequence}).reshape({rows}),
                   channel_begin, x.numel() / rows);
  const at::Tensor factors = words.ge(int64_t{rule.threshold}).to(type).mul_(rule.scale);
  return x.to(type).mul(factors.view(x.sizes())).to(x.scalar_type()).contiguous();
}

at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& frequencies,
                  int64_t rotated_heads, bool interleaved, double factor, bool backward) {
  // [sequence, 1, pairs], or [batch, sequence, 1, pairs]
  const at::Tensor angles = (positions.unsqueeze(-1) * frequencies).unsqueeze(-2);
  const at::Tensor cosines = angles.cos().mul_(factor).to(x.scalar_type());
  const at::Tensor sines = angles.sin().mul_(backward ? -factor : factor).to(x.scalar_type());
  const at::Tensor y = x.clone(at::MemoryFormat::Contiguous);
  const int64_t half = frequencies.size(0);
  const auto part = [&](const at::Tensor& t, int64_t which) {
    const at::Tensor turning = t.narrow(2, 0, rotated_heads).narrow(3, 0, 2 * half);
    if (interleaved) return turning.unflatten(3, {half, 2}).select(4, which);
    return turning.narrow(3, which * half, half);
  };
  at::Tensor first = part(y, 0), second = part(y, 1);
  at::mul_out(first, part(x, 0), cosines).addcmul_(part(x, 1), sines, -1);
  at::mul_out(second, part(x, 1), cosines).addcmul_(part(x, 0), sines);
  return y;
}

namespace {

// Maximum bytes of the scores of one block of query rows.
constexpr int64_t kScoreBytes = int64_t{256} << 20;

// An attention, computed for one block of query rows of all heads at a time, in the compute type
// (fp64 for fp64, otherwise fp32).
struct Problem {
  // In the compute type. Heads of keys and values are repeated: one for each query head.
  at::Tensor query, key, value;
  std::vector<Range> query_runs{}, key_runs{};
  std::optional<at::Tensor> query_documents{}, key_documents{};
  at::Tensor relative_bias{};  // in the compute type; undefined: none
  AttentionRule rule{};

  int64_t batch() const { return query.size(0); }
  int64_t heads() const { return query.size(1); }
  int64_t sequence() const { return query.size(2); }
  int64_t keys() const { return key.size(2); }

  int64_t block_rows() const {
    const int64_t row_bytes =
        std::max<int64_t>(1, batch() * heads() * keys()) * query.element_size();
    return std::max<int64_t>(1, std::min(sequence(), kScoreBytes / row_bytes));
  }

  // Returns the positions in all runs, one run after the other.
  at::Tensor positions_of(const std::vector<Range>& runs) const {
    const at::TensorOptions options = query.options().dtype(at::kLong);
    std::vector<at::Tensor> parts{at::empty({0}, options)};
    for (const Range& run : runs) parts.push_back(at::arange(run.begin, run.end, options));
    return at::cat(parts);
  }

  // Returns the scaled and capped scores of query rows [begin, begin + rows), [batch, heads, rows,
  // keys].
  at::Tensor capped_scores(int64_t begin, int64_t rows) const {
    const at::Tensor product = at::matmul(query.narrow(2, begin, rows), key.transpose(2, 3));
    product.mul_(rule.scale);
    return rule.soft_cap == 0 ? product : product.div_(rule.soft_cap).tanh_().mul_(rule.soft_cap);
  }

  // Returns the columns of the relative bias for each row and key, [rows, keys].
  at::Tensor bias_columns(int64_t begin, int64_t rows) const {
    const int64_t most = relative_bias.size(1) / 2;
    const at::Tensor of_rows = positions_of(query_runs).narrow(0, begin, rows).unsqueeze(1);
    return (positions_of(key_runs) - of_rows).clamp(-most, most).add(most);
  }

  // Returns `capped` plus the ALiBi and relative biases, with -infinity where a row does not see a
  // key. begin: the first row.
  at::Tensor seen_scores(const at::Tensor& capped, int64_t begin) const {
    const int64_t rows = capped.size(2);
    const at::Tensor of_rows = positions_of(query_runs).narrow(0, begin, rows).unsqueeze(1);
    const at::Tensor of_keys = positions_of(key_runs);
    at::Tensor scores = capped;
    if (!rule.alibi_slopes.empty()) {
      const at::Tensor distances = (of_keys - of_rows).to(scores.options());
      const at::Tensor slopes =
          upload(at::tensor(rule.alibi_slopes, scores.scalar_type()), scores.device());
      scores = scores + slopes.view({-1, 1, 1}) * distances;
    }
    if (relative_bias.defined()) {
      const at::Tensor columns = bias_columns(begin, rows);
      scores = scores + relative_bias.index_select(1, columns.flatten())
                            .view({-1, columns.size(0), columns.size(1)});
    }
    const double hidden = -std::numeric_limits<double>::infinity();
    if (rule.causal || rule.window > 0) {
      scores = scores.masked_fill(is_hidden(of_rows, of_keys), hidden);
    }
    if (query_documents) {
      const at::Tensor documents = query_documents->narrow(1, begin, rows).unsqueeze(2);
      scores = scores.masked_fill(documents.ne(key_documents->unsqueeze(1)).unsqueeze(1), hidden);
    }
    return scores;
  }

  // Returns whether each key is hidden from each row: [rows, keys], or [batch, 1, rows, keys] if
  // there are prefixes. of_rows [rows, 1] and of_keys [keys] are positions.
  at::Tensor is_hidden(const at::Tensor& of_rows, const at::Tensor& of_keys) const {
    const at::Tensor after = of_keys - of_rows;
    at::Tensor hidden = after.gt(rule.causal ? 0 : rule.window - 1);
    if (rule.window > 0) hidden = hidden.bitwise_or(after.le(-rule.window));
    if (rule.prefix_lengths.empty()) return hidden;
    const at::Tensor prefixes = at::tensor(rule.prefix_lengths, at::kLong).view({-1, 1, 1, 1});
    return hidden.bitwise_and(of_keys.ge(upload(prefixes, of_keys.device())));
  }

  // Returns the dropout factors of these rows, [batch, heads, rows, keys]; undefined without
  // dropout.
  at::Tensor factors(int64_t begin, int64_t rows) const {
    if (rule.dropout == 0) return {};
    const at::Tensor positions = positions_of(query_runs).narrow(0, begin, rows);
    std::vector<at::Tensor> of_heads;
    for (int64_t head = 0; head < heads(); ++head) {
      std::vector<at::Tensor> of_runs{at::empty({batch(), rows, 0}, query.options())};
      for (const Range& run : key_runs) {
        of_runs.push_back(ops::dropout(at::ones({batch(), rows, run.size()}, query.options()),
                                       rule.dropout,
                                       random_subkey(rule.random_key, rule.head_begin + head),
                                       rule.sample_ids, positions, run.begin));
      }
      of_heads.push_back(at::cat(of_runs, 2));
    }
    return at::stack(of_heads, 1);
  }
};

at::Tensor for_each_query_head(const at::Tensor& x, int64_t heads, at::ScalarType type) {
  return x.to(type).repeat_interleave(heads / x.size(1), 1);
}

Problem make_problem(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     at::IntArrayRef query_positions, at::IntArrayRef key_positions,
                     AttentionRule rule) {
  const at::ScalarType type = compute_type(query.scalar_type());
  Problem problem{query.to(type), for_each_query_head(key, query.size(1), type),
                  for_each_query_head(value, query.size(1), type)};
  problem.query_runs = unpack_runs(query_positions);
  problem.key_runs = unpack_runs(key_positions);
  problem.rule = std::move(rule);
  return problem;
}

// Allocates [batch, heads, sequence, columns], stored as [batch, sequence, heads, columns].
at::Tensor empty_heads(const at::Tensor& like, int64_t columns) {
  return at::empty({like.size(0), like.size(2), like.size(1), columns}, like.options())
      .transpose(1, 2);
}

// Returns the sums over the query heads that share a key head.
at::Tensor sum_groups(const at::Tensor& x, int64_t kv_heads) {
  return x.view({x.size(0), kv_heads, x.size(1) / kv_heads, x.size(2), x.size(3)}).sum(2);
}

// Return packed runs (pack_runs()): the queries are the last tokens of the sequence, the keys are
// all of its tokens.
std::array<int64_t, 2> last_positions(const at::Tensor& query, const at::Tensor& key) {
  const int64_t first = std::max<int64_t>(0, key.size(2) - query.size(2));
  return {first, first + query.size(2)};
}
std::array<int64_t, 2> all_positions(const at::Tensor& key) {
  return {0, key.size(2)};
}

// Returns exp(logsumexp - total), and 0 where logsumexp is -infinity, even if `total` is, too.
at::Tensor weight_of(const at::Tensor& logsumexp, const at::Tensor& total) {
  return (logsumexp - total)
      .exp_()
      .masked_fill_(logsumexp.eq(-std::numeric_limits<double>::infinity()), 0);
}

}  // namespace

void attention_part(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const std::optional<at::Tensor>& query_documents,
                    const std::optional<at::Tensor>& key_documents,
                    const std::optional<at::Tensor>& sinks, at::IntArrayRef query_positions,
                    at::IntArrayRef key_positions, at::IntArrayRef rule_integers,
                    at::ArrayRef<double> rule_numbers, bool accumulate, const at::Tensor& output,
                    const at::Tensor& logsumexp, const std::optional<at::Tensor>& relative_bias) {
  Problem problem = make_problem(query, key, value, query_positions, key_positions,
                                 AttentionRule::unpacked(rule_integers, rule_numbers));
  problem.query_documents = query_documents;
  problem.key_documents = key_documents;
  if (relative_bias) problem.relative_bias = relative_bias->to(problem.query.scalar_type());
  const int64_t block = problem.block_rows();
  for (int64_t begin = 0; begin < problem.sequence(); begin += block) {
    const int64_t rows = std::min(block, problem.sequence() - begin);
    const at::Tensor scores = problem.seen_scores(problem.capped_scores(begin, rows), begin);
    const at::Tensor factors = problem.factors(begin, rows);
    const at::Tensor output_here = output.narrow(2, begin, rows);
    const at::Tensor logsumexp_here = logsumexp.narrow(2, begin, rows);
    at::Tensor of_these = at::logsumexp(scores, {-1});
    if (sinks && !accumulate) {
      of_these = at::logaddexp(of_these, sinks->to(of_these.scalar_type()).view({1, -1, 1}));
    }
    const at::Tensor total = accumulate ? at::logaddexp(logsumexp_here, of_these) : of_these;
    at::Tensor probabilities = weight_of(scores, total.unsqueeze(-1));
    if (factors.defined()) probabilities.mul_(factors);
    const at::Tensor seen = at::matmul(probabilities, problem.value);
    if (accumulate) {
      output_here.copy_(output_here * weight_of(logsumexp_here, total).unsqueeze(-1) + seen);
    } else {
      output_here.copy_(seen);
    }
    logsumexp_here.copy_(total);
  }
}

void attention_part_backward(const at::Tensor& output_gradient, const at::Tensor& query,
                             const at::Tensor& key, const at::Tensor& value,
                             const at::Tensor& output, const at::Tensor& logsumexp,
                             const std::optional<at::Tensor>& query_documents,
                             const std::optional<at::Tensor>& key_documents,
                             at::IntArrayRef query_positions, at::IntArrayRef key_positions,
                             at::IntArrayRef rule_integers, at::ArrayRef<double> rule_numbers,
                             bool accumulate, const at::Tensor& query_gradient,
                             const at::Tensor& key_gradient, const at::Tensor& value_gradient,
                             const std::optional<at::Tensor>& relative_bias,
                             const std::optional<at::Tensor>& relative_bias_gradient) {
  Problem problem = make_problem(query, key, value, query_positions, key_positions,
                                 AttentionRule::unpacked(rule_integers, rule_numbers));
  problem.query_documents = query_documents;
  problem.key_documents = key_documents;
  if (relative_bias) problem.relative_bias = relative_bias->to(problem.query.scalar_type());
  const at::ScalarType type = problem.query.scalar_type();
  const at::Tensor wide_gradient = output_gradient.to(type);
  const at::Tensor delta = (wide_gradient * output.to(type)).sum(-1, true);
  const at::Tensor of_keys = at::zeros(problem.key.sizes(), problem.key.options());
  const at::Tensor of_values = at::zeros(problem.value.sizes(), problem.value.options());
  const int64_t block = problem.block_rows();
  for (int64_t begin = 0; begin < problem.sequence(); begin += block) {
    const int64_t rows = std::min(block, problem.sequence() - begin);
    const auto of_rows = [&](const at::Tensor& x) { return x.narrow(2, begin, rows); };
    const at::Tensor capped = problem.capped_scores(begin, rows);
    const at::Tensor probabilities =
        weight_of(problem.seen_scores(capped, begin), of_rows(logsumexp).unsqueeze(-1));
    const at::Tensor factors = problem.factors(begin, rows);
    at::Tensor gradient = at::matmul(of_rows(wide_gradient), problem.value.transpose(2, 3));
    if (factors.defined()) gradient.mul_(factors);
    gradient.sub_(of_rows(delta)).mul_(probabilities);
    if (relative_bias_gradient) {
      relative_bias_gradient->index_add_(
          1, problem.bias_columns(begin, rows).flatten(),
          gradient.sum(0).flatten(1).to(relative_bias_gradient->scalar_type()));
    }
    gradient.mul_(problem.rule.scale);
    if (const double cap = problem.rule.soft_cap; cap > 0) {
      gradient.mul_(1 - (capped / cap).square_());
    }
    const at::Tensor kept = factors.defined() ? probabilities * factors : probabilities;
    of_values.add_(at::matmul(kept.transpose(2, 3), of_rows(wide_gradient)));
    of_keys.add_(at::matmul(gradient.transpose(2, 3), of_rows(problem.query)));
    const at::Tensor of_queries = at::matmul(gradient, problem.key);
    if (accumulate) {
      of_rows(query_gradient).add_(of_queries);
    } else {
      of_rows(query_gradient).copy_(of_queries);
    }
  }
  key_gradient.copy_(sum_groups(of_keys, key.size(1)));
  value_gradient.copy_(sum_groups(of_values, key.size(1)));
}

std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor& query, const at::Tensor& key,
                                             const at::Tensor& value,
                                             const std::optional<at::Tensor>& sinks,
                                             at::IntArrayRef rule_integers,
                                             at::ArrayRef<double> rule_numbers) {
  const at::Tensor output = empty_heads(query, value.size(3));
  const at::Tensor logsumexp = at::empty({query.size(0), query.size(2), query.size(1)},
                                         query.options().dtype(compute_type(query.scalar_type())))
                                   .transpose(1, 2);
  attention_part(query, key, value, std::nullopt, std::nullopt, sinks, last_positions(query, key),
                 all_positions(key), rule_integers, rule_numbers, false, output, logsumexp,
                 std::nullopt);
  return {output, logsumexp};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& output_gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp, bool,
    at::IntArrayRef rule_integers, at::ArrayRef<double> rule_numbers) {
  const at::Tensor query_gradient = empty_heads(query, query.size(3));
  const at::Tensor key_gradient = empty_heads(key, key.size(3));
  const at::Tensor value_gradient = empty_heads(value, value.size(3));
  attention_part_backward(output_gradient, query, key, value, output, logsumexp, std::nullopt,
                          std::nullopt, last_positions(query, key), all_positions(key),
                          rule_integers, rule_numbers, false, query_gradient, key_gradient,
                          value_gradient, std::nullopt, std::nullopt);
  return {query_gradient, key_gradient, value_gradient};
}

void write_to_pages(const at::Tensor& key_pages, const at::Tensor& value_pages,
                    const at::Tensor& keys, const at::Tensor& values,
                    const at::Tensor& page_of_token, const at::Tensor& place_of_token) {
  const at::Device device = key_pages.device();
  const c10::List<std::optional<at::Tensor>> places(
      {upload(page_of_token, device), upload(place_of_token, device)});
  key_pages.permute({0, 3, 1, 2}).index_put_(places, keys.transpose(0, 1));
  value_pages.permute({0, 2, 1, 3}).index_put_(places, values.transpose(0, 1));
}

// Copies the pages of each token's sequence, as many as the longest table has, and masks the
// positions after the token.
std::tuple<at::Tensor, at::Tensor> paged_attention(
    const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
    const std::optional<at::Tensor>& key_scales, const std::optional<at::Tensor>& value_scales,
    const at::Tensor& tables, const at::Tensor& sequences, const at::Tensor& positions,
    int64_t /*longest*/, const std::optional<at::Tensor>& sinks, at::IntArrayRef rule_integers,
    at::ArrayRef<double> rule_numbers, const std::optional<at::Tensor>& relative_bias) {
  const AttentionRule rule = AttentionRule::unpacked(rule_integers, rule_numbers);
  const at::Device device = query.device();
  const at::ScalarType type = compute_type(query.scalar_type());
  const int64_t tokens = query.size(0), heads = query.size(1), group = heads / keys.size(1);
  const at::Tensor pages = upload(tables, device).index_select(0, upload(sequences, device));
  const int64_t length = pages.size(1) * keys.size(3);
  // Reorders [tokens * pages, kv_heads, page_size, size] to [tokens, heads, positions, size].
  const auto of_heads = [&](const at::Tensor& taken) {
    return taken.unflatten(0, {tokens, pages.size(1)})
        .permute({0, 2, 1, 3, 4})
        .reshape({tokens, heads / group, length, taken.size(-1)})
        .repeat_interleave(group, 1)
        .to(type);
  };
  const auto taken = [&](const at::Tensor& rows, const std::optional<at::Tensor>& scales) {
    if (!scales) return rows;
    return ScaledRows{rows, scales->index_select(0, pages.flatten())}.numbers(type);
  };
  const at::Tensor key =
      of_heads(taken(keys.index_select(0, pages.flatten()).transpose(2, 3), key_scales));
  const at::Tensor value = of_heads(taken(values.index_select(0, pages.flatten()), value_scales));
  at::Tensor scores = at::matmul(key, query.to(type).unsqueeze(-1)).squeeze(-1) * rule.scale;
  if (rule.soft_cap != 0) scores = (scores / rule.soft_cap).tanh() * rule.soft_cap;
  const at::Tensor own = upload(positions, device).view({tokens, 1, 1});
  // Positions of the keys minus the position of the token.
  const at::Tensor distance = at::arange(length, own.options()) - own;
  if (!rule.alibi_slopes.empty()) {
    const at::Tensor slopes = upload(at::tensor(rule.alibi_slopes, scores.scalar_type()), device);
    scores = scores + slopes.view({1, heads, 1}) * distance;
  }
  if (relative_bias) {
    const int64_t most = relative_bias->size(1) / 2;
    const at::Tensor columns = distance.clamp(-most, most).add(most);  // [tokens, 1, length]
    scores = scores + relative_bias->to(type)
                          .index_select(1, columns.flatten())
                          .view({heads, tokens, length})
                          .transpose(0, 1);
  }
  at::Tensor hidden = distance > 0;
  if (rule.window > 0) hidden = hidden | (distance <= -rule.window);
  scores = scores.masked_fill(hidden, -INFINITY);
  if (sinks) {
    scores = at::cat({scores, sinks->to(type).view({1, heads, 1}).expand({tokens, -1, 1})}, -1);
  }
  const at::Tensor probabilities = scores.softmax(-1).narrow(-1, 0, length).unsqueeze(-1);
  // Pages are not initialized after the sequence's end, and 0 times NaN would be NaN.
  const at::Tensor seen = value.masked_fill(hidden.unsqueeze(-1), 0);
  return {(probabilities * seen).sum(2).to(query.scalar_type()), scores.logsumexp(-1)};
}

}  // namespace colossal::ops::aten_fallback
