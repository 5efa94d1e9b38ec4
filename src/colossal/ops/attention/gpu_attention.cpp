// Attention on GPUs through LibTorch's flash attention kernels, which take bf16 and fp16. Other
// types and options that these kernels lack are computed by aten_fallback.h, which also describes
// the arguments of the operators.
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "colossal/ops/attention/attention.h"
#include "colossal/ops/attention/attention_tiles.h"
#include "colossal/ops/fallback/aten_fallback.h"
#include "colossal/ops/fallback/fallbacks.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/upload.h"

namespace colossal::ops::gpu {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// LibTorch's kernels take heads of multiples of 8 numbers, up to 256.
constexpr int64_t kHeadMultiple = 8, kLargestHead = 256;

int64_t padded_size(const at::Tensor& query, const at::Tensor& value) {
  const int64_t size = std::max(query.size(3), value.size(3));
  return (size + kHeadMultiple - 1) / kHeadMultiple * kHeadMultiple;
}

bool is_empty(const at::Tensor& query, const at::Tensor& key) {
  return query.numel() == 0 || key.numel() == 0;
}

// Returns what the kernels lack for this attention between one or more runs of positions, such as
// "dropout"; nullopt: nothing.
std::optional<std::string> lacking(const at::Tensor& query, const at::Tensor& key,
                                   const at::Tensor& value, const AttentionRule& rule,
                                   bool whole_sequence) {
  if (is_empty(query, key)) return "no rows";
  const at::ScalarType type = query.scalar_type();
  if (type != at::kBFloat16 && type != at::kHalf) {
    return fmt::format("numbers of type {}", c10::toString(type));
  }
  if (key.scalar_type() != type || value.scalar_type() != type) return "numbers of two types";
  if (rule.dropout > 0) return "dropout";
  if (rule.soft_cap > 0) return "a soft cap";
  if (!rule.prefix_lengths.empty()) return "prefixes";
  if (!rule.alibi_slopes.empty()) return "ALiBi";
  if (rule.window > 0 && !whole_sequence) return "a window over ranks";
  if (const int64_t size = padded_size(query, value); size > kLargestHead) {
    return fmt::format("heads of {} numbers", size);
  }
  return std::nullopt;
}

// The same for a part, which may have documents or a relative bias. by_document: whether each
// document is computed alone.
std::optional<std::string> lacking(const at::Tensor& query, const at::Tensor& key,
                                   const at::Tensor& value, const AttentionRule& rule,
                                   bool has_documents, bool by_document,
                                   const std::optional<at::Tensor>& relative_bias) {
  if (relative_bias) return "a relative bias";
  if (has_documents && !by_document) return "documents that are not whole";
  return lacking(query, key, value, rule, /*whole_sequence=*/by_document);
}

// Counts a fallback, unless there is nothing to compute.
void count(const at::Tensor& query, const at::Tensor& key, const std::string& lack) {
  if (!is_empty(query, key)) count_fallback("attention with " + lack);
}

// Returns x [batch, heads, sequence, size] as the kernels take it: [batch, sequence, heads,
// padded], with rows at multiples of 16 bytes.
at::Tensor for_kernel(const at::Tensor& x, int64_t padded) {
  at::Tensor rows = x.transpose(1, 2);
  if (x.size(3) != padded) return at::constant_pad_nd(rows, {0, padded - x.size(3)});
  const bool aligned = rows.stride(3) == 1 && rows.stride(0) % kHeadMultiple == 0 &&
                       rows.stride(1) % kHeadMultiple == 0 && rows.stride(2) % kHeadMultiple == 0 &&
                       reinterpret_cast<uintptr_t>(rows.const_data_ptr()) % 16 == 0;
  return aligned ? rows : rows.contiguous();
}

// Returns x [batch, sequence, heads, padded] as [batch, heads, sequence, size].
at::Tensor from_kernel(const at::Tensor& x, int64_t size) {
  return x.narrow(3, 0, size).transpose(1, 2);
}

// The documents of all samples, one after another. A kernel computes each alone.
struct Documents {
  at::Tensor borders;  // [documents + 1] int32: where each begins, and where the last ends
  int64_t longest = 0;
};

Documents documents_of(const AttentionRule& rule, const at::Device& device) {
  std::vector<int32_t> borders{0};
  int64_t longest = 0;
  for (const int64_t length : rule.document_lengths) {
    borders.push_back(borders.back() + static_cast<int32_t>(length));
    longest = std::max(longest, length);
  }
  return {upload(at::tensor(borders, at::kInt), device), longest};
}

// Whether queries and keys are the same whole documents, of known lengths.
bool has_whole_documents(const at::Tensor& query, const at::Tensor& key,
                         const AttentionRule& rule) {
  const std::vector<int64_t>& lengths = rule.document_lengths;
  return query.size(2) == key.size(2) &&
         std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) == key.size(0) * key.size(2);
}

// One call of the kernels: queries and keys whose last rows are at the same position if `causal`,
// or if the rule has a window.
struct Call {
  at::Tensor query, key, value;
  double scale = 1;
  bool causal = false;
  int64_t window = 0;
  std::optional<Documents> documents{};  // of queries and keys; nullopt: each sample is one

  int64_t padded() const { return padded_size(query, value); }
  std::optional<int64_t> left() const {
    return window > 0 ? std::optional(window - 1) : std::nullopt;
  }
  std::optional<int64_t> right() const {
    if (window == 0) return std::nullopt;
    return causal ? 0 : window - 1;
  }

  // The rows of all samples are those of one sequence if there are documents.
  at::Tensor rows_of(const at::Tensor& x) const {
    const at::Tensor rows = for_kernel(x, padded());
    return documents ? rows.flatten(0, 1) : rows;
  }
  at::Tensor of_rows(const at::Tensor& rows, int64_t size) const {
    return from_kernel(documents ? rows.unflatten(0, {query.size(0), -1}) : rows, size);
  }
  std::optional<at::Tensor> borders() const {
    return documents ? std::optional(documents->borders) : std::nullopt;
  }
  int64_t most_queries() const { return documents ? documents->longest : query.size(2); }
  int64_t most_keys() const { return documents ? documents->longest : key.size(2); }

  AttentionResult forward() const {
    auto [output, logsumexp, random_state, unused, mask] = at::_flash_attention_forward(
        rows_of(query), rows_of(key), rows_of(value), borders(), borders(), most_queries(),
        most_keys(), 0.0, causal, false, scale, left(), right());
    if (documents) logsumexp = logsumexp.unflatten(1, {query.size(0), -1}).transpose(0, 1);
    return {of_rows(output, value.size(3)), logsumexp};
  }

  // output, logsumexp: of the queries' attention to all keys.
  AttentionGradients backward(const at::Tensor& output_gradient, const at::Tensor& output,
                              const at::Tensor& logsumexp) const {
    const at::Tensor no_random_state = at::empty({2}, query.options().dtype(at::kUInt64));
    const at::Tensor unused = at::empty({}, query.options().dtype(at::kUInt64));
    const at::ScalarType type = query.scalar_type();
    const at::Tensor ends = borders().value_or(at::Tensor());
    const at::Tensor sums = documents ? logsumexp.transpose(0, 1).flatten(1) : logsumexp;
    const auto [of_query, of_key, of_value] = at::_flash_attention_backward(
        rows_of(output_gradient.to(type)), rows_of(query), rows_of(key), rows_of(value),
        rows_of(output.to(type)), sums.contiguous(), ends, ends, most_queries(), most_keys(), 0.0,
        causal, no_random_state, unused, scale, left(), right());
    return {of_rows(of_query, query.size(3)), of_rows(of_key, key.size(3)),
            of_rows(of_value, value.size(3))};
  }
};

Call whole_call(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                const AttentionRule& rule) {
  return {query, key, value, rule.scale, rule.causal, rule.window};
}

// Returns exp(part - total), and 0 where `part` is -infinity.
at::Tensor weight_of(const at::Tensor& part, const at::Tensor& total) {
  return (part - total).exp_().masked_fill_(part.eq(kNothing), 0).unsqueeze(-1);
}

Call call_by_document(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const AttentionRule& rule) {
  Call call = whole_call(query, key, value, rule);
  call.documents = documents_of(rule, query.device());
  return call;
}

// Counts the sinks, [heads] or none, in the sums of `result`.
void add_sinks(AttentionResult& result, const std::optional<at::Tensor>& sinks) {
  if (!sinks) return;
  const at::Tensor sink = sinks->to(at::kFloat).view({1, -1, 1});
  const at::Tensor total = at::logaddexp(result.logsumexp, sink);
  result.output.mul_(weight_of(result.logsumexp, total));
  result.logsumexp = total;
}

Call call_of_tile(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const AttentionTile& tile, const AttentionRule& rule) {
  const auto rows = [](const at::Tensor& x, const Range& range) {
    return x.narrow(2, range.begin, range.size());
  };
  return {rows(query, tile.queries), rows(key, tile.keys), rows(value, tile.keys), rule.scale,
          tile.on_diagonal};
}

// Merges the attention to more keys into `result`.
void merge(const AttentionResult& result, const AttentionResult& more) {
  const at::Tensor total = at::logaddexp(result.logsumexp, more.logsumexp);
  result.output.copy_(result.output * weight_of(result.logsumexp, total) +
                      more.output * weight_of(more.logsumexp, total));
  result.logsumexp.copy_(total);
}

std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor& query, const at::Tensor& key,
                                             const at::Tensor& value,
                                             const std::optional<at::Tensor>& sinks,
                                             at::IntArrayRef rule_integers,
                                             at::ArrayRef<double> rule_numbers) {
  const AttentionRule rule = AttentionRule::unpacked(rule_integers, rule_numbers);
  if (const auto lack = lacking(query, key, value, rule, /*whole_sequence=*/true)) {
    count(query, key, *lack);
    return aten_fallback::attention(query, key, value, sinks, rule_integers, rule_numbers);
  }
  AttentionResult result = whole_call(query, key, value, rule).forward();
  add_sinks(result, sinks);
  return {result.output, result.logsumexp};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& output_gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp, bool sinks,
    at::IntArrayRef rule_integers, at::ArrayRef<double> rule_numbers) {
  const AttentionRule rule = AttentionRule::unpacked(rule_integers, rule_numbers);
  if (const auto lack = lacking(query, key, value, rule, /*whole_sequence=*/true)) {
    count(query, key, *lack);
    return aten_fallback::attention_backward(output_gradient, query, key, value, output, logsumexp,
                                             sinks, rule_integers, rule_numbers);
  }
  AttentionGradients gradients =
      whole_call(query, key, value, rule).backward(output_gradient, output, logsumexp);
  return {gradients.query, gradients.key, gradients.value};
}

void attention_part(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const std::optional<at::Tensor>& query_documents,
                    const std::optional<at::Tensor>& key_documents,
                    const std::optional<at::Tensor>& sinks, at::IntArrayRef query_positions,
                    at::IntArrayRef key_positions, at::IntArrayRef rule_integers,
                    at::ArrayRef<double> rule_numbers, bool accumulate, const at::Tensor& output,
                    const at::Tensor& logsumexp, const std::optional<at::Tensor>& relative_bias) {
  const AttentionRule rule = AttentionRule::unpacked(rule_integers, rule_numbers);
  const bool by_document = key_documents && !accumulate && has_whole_documents(query, key, rule);
  if (const auto lack =
          lacking(query, key, value, rule, key_documents.has_value(), by_document, relative_bias)) {
    count(query, key, *lack);
    return aten_fallback::attention_part(
        query, key, value, query_documents, key_documents, sinks, query_positions, key_positions,
        rule_integers, rule_numbers, accumulate, output, logsumexp, relative_bias);
  }
  if (by_document) {
    AttentionResult result = call_by_document(query, key, value, rule).forward();
    add_sinks(result, sinks);
    output.copy_(result.output);
    logsumexp.copy_(result.logsumexp);
    return;
  }
  if (!accumulate) {
    output.zero_();
    sinks ? logsumexp.copy_(sinks->view({1, -1, 1}).expand(logsumexp.sizes()))
          : logsumexp.fill_(kNothing);
  }
  for (const AttentionTile& tile :
       attention_tiles(unpack_runs(query_positions), unpack_runs(key_positions), rule)) {
    const auto rows = [&](const at::Tensor& x) {
      return x.narrow(2, tile.queries.begin, tile.queries.size());
    };
    merge({rows(output), rows(logsumexp)}, call_of_tile(query, key, value, tile, rule).forward());
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
  const AttentionRule rule = AttentionRule::unpacked(rule_integers, rule_numbers);
  const bool by_document = key_documents && !accumulate && has_whole_documents(query, key, rule);
  if (const auto lack =
          lacking(query, key, value, rule, key_documents.has_value(), by_document, relative_bias)) {
    count(query, key, *lack);
    return aten_fallback::attention_part_backward(
        output_gradient, query, key, value, output, logsumexp, query_documents, key_documents,
        query_positions, key_positions, rule_integers, rule_numbers, accumulate, query_gradient,
        key_gradient, value_gradient, relative_bias, relative_bias_gradient);
  }
  if (by_document) {
    const AttentionGradients gradients =
        call_by_document(query, key, value, rule).backward(output_gradient, output, logsumexp);
    query_gradient.copy_(gradients.query);
    key_gradient.copy_(gradients.key);
    value_gradient.copy_(gradients.value);
    return;
  }
  if (!accumulate) query_gradient.zero_();
  key_gradient.zero_();
  value_gradient.zero_();
  for (const AttentionTile& tile :
       attention_tiles(unpack_runs(query_positions), unpack_runs(key_positions), rule)) {
    const auto of_queries = [&](const at::Tensor& x) {
      return x.narrow(2, tile.queries.begin, tile.queries.size());
    };
    const auto of_keys = [&](const at::Tensor& x) {
      return x.narrow(2, tile.keys.begin, tile.keys.size());
    };
    const AttentionGradients more =
        call_of_tile(query, key, value, tile, rule)
            .backward(of_queries(output_gradient), of_queries(output), of_queries(logsumexp));
    of_queries(query_gradient).add_(more.query);
    of_keys(key_gradient).add_(more.key);
    of_keys(value_gradient).add_(more.value);
  }
}

TORCH_LIBRARY_IMPL(colossal, CUDA, m) {
  m.impl("attention", attention);
  m.impl("attention_backward", attention_backward);
  m.impl("attention_part", attention_part);
  m.impl("attention_part_backward", attention_part_backward);
}

}  // namespace
}  // namespace colossal::ops::gpu
