#include "colossal/ops/attention/paged_attention.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "colossal/base/error.h"
#include "colossal/ops/fallback/aten_fallback.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/kernels/paged_attention.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

AttentionResult empty_result(const at::Tensor& query, const at::Tensor& values) {
  return {at::empty({query.size(0), query.size(1), values.size(3)}, query.options()),
          at::empty({query.size(0), query.size(1)},
                    query.options().dtype(compute_type(query.scalar_type())))};
}

// The attention of a batch of tokens. One piece of work is a token's queries that share a key head.
class PagedProblem {
 public:
  PagedProblem(const at::Tensor& query, const KeyValuePages& pages, const PagedTokens& tokens,
               const OptionalTensor& sinks, const OptionalTensor& relative_bias,
               const AttentionRule& rule, const AttentionResult& result)
      : query_(query),
        keys_(pages.keys),
        values_(pages.values),
        key_scales_(pages.key_scales),
        value_scales_(pages.value_scales),
        tables_(tokens.tables.contiguous()),
        sequences_(tokens.sequences.contiguous()),
        positions_(tokens.positions.contiguous()),
        longest_(tokens.longest),
        rule_(rule),
        output_(result.output),
        logsumexp_(result.logsumexp),
        type_(element_type(query.scalar_type())),
        group_(query.size(1) / keys_.size(1)) {
    if (sinks) sinks_ = sinks->to(at::kDouble).contiguous();
    if (!relative_bias) return;
    const int64_t most = relative_bias->size(1) / 2;  // keys are never after the token
    bias_ = relative_bias->to(at::kDouble).narrow(1, 0, most + 1).flip(1).contiguous();
  }

  int64_t pieces() const { return query_.size(0) * keys_.size(1); }

  int64_t scratch_bytes() const {
    // The kernel computes the scores of whole pages: up to one page more at each end.
    return kernels::paged_scratch(group_, longest_ + 2 * keys_.size(3), query_.size(2),
                                  values_.size(3)) *
           c10::elementSize(compute_type(query_.scalar_type()));
  }

  void run(int64_t piece, void* scratch) const {
    const int64_t token = piece / keys_.size(1), head = piece % keys_.size(1);
    const int64_t position = positions_.const_data_ptr<int64_t>()[token];
    const int64_t sequence = sequences_.const_data_ptr<int64_t>()[token];
    const int64_t first = head * group_;
    const auto at = [](const at::Tensor& tensor, int64_t element) {
      return static_cast<char*>(const_cast<void*>(tensor.const_data_ptr())) +
             element * tensor.element_size();
    };
    kernels::paged_attention_kernel()(
        {.type = type_,
         .queries = at(query_, token * query_.stride(0) + first * query_.stride(1)),
         .query_stride = query_.stride(1),
         .count = group_,
         .head_size = query_.size(2),
         .value_size = values_.size(3),
         .keys = at(keys_, head * keys_.stride(1)),
         .values = at(values_, head * values_.stride(1)),
         .key_page = keys_.stride(0),
         .value_page = values_.stride(0),
         .page_size = keys_.size(3),
         .key_scales = scales_at(key_scales_, head),
         .value_scales = scales_at(value_scales_, head),
         .scale_page = key_scales_.defined() ? key_scales_.stride(0) : 0,
         .pages = tables_.const_data_ptr<int64_t>() + sequence * tables_.size(1),
         .begin = rule_.window > 0 ? std::max<int64_t>(0, position - rule_.window + 1) : 0,
         .end = position + 1,
         .scale = rule_.scale,
         .soft_cap = rule_.soft_cap,
         .slopes = rule_.alibi_slopes.empty() ? nullptr : rule_.alibi_slopes.data() + first,
         .relative_bias =
             bias_.defined() ? bias_.const_data_ptr<double>() + first * bias_.size(1) : nullptr,
         .bias_size = bias_.defined() ? bias_.size(1) : 0,
         .sinks = sinks_.defined() ? sinks_.const_data_ptr<double>() + first : nullptr,
         .scratch = scratch,
         .outputs = at(output_, token * output_.stride(0) + first * output_.stride(1)),
         .output_stride = output_.stride(1),
         .logsumexps = at(logsumexp_, token * logsumexp_.stride(0) + first)});
  }

 private:
  static const float* scales_at(const at::Tensor& scales, int64_t head) {
    return scales.defined() ? scales.const_data_ptr<float>() + head * scales.stride(1) : nullptr;
  }

  const at::Tensor& query_;
  const at::Tensor& keys_;
  const at::Tensor& values_;
  const at::Tensor& key_scales_;
  const at::Tensor& value_scales_;
  at::Tensor tables_, sequences_, positions_, sinks_;
  int64_t longest_;
  at::Tensor bias_;  // [heads, M + 1], by distance; undefined: none
  const AttentionRule& rule_;
  const at::Tensor& output_;
  const at::Tensor& logsumexp_;
  kernels::ElementType type_;
  int64_t group_;
};

std::tuple<at::Tensor, at::Tensor> paged_cpu(
    const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
    const OptionalTensor& key_scales, const OptionalTensor& value_scales, const at::Tensor& tables,
    const at::Tensor& sequences, const at::Tensor& positions, int64_t longest,
    const OptionalTensor& sinks, at::IntArrayRef integers, at::ArrayRef<double> numbers,
    const OptionalTensor& relative_bias) {
  const AttentionResult result = empty_result(query, values);
  const AttentionRule rule = AttentionRule::unpacked(integers, numbers);
  const KeyValuePages pages{keys, values, key_scales.value_or(at::Tensor()),
                            value_scales.value_or(at::Tensor())};
  const PagedProblem problem(query, pages, {tables, sequences, positions, longest}, sinks,
                             relative_bias, rule, result);
  const int64_t bytes = problem.scratch_bytes();
  parallel_for(0, problem.pieces(), 1, [&](int64_t begin, int64_t end) {
    const auto scratch = std::make_unique_for_overwrite<char[]>(bytes);
    for (int64_t piece = begin; piece < end; ++piece) problem.run(piece, scratch.get());
  });
  return {result.output, result.logsumexp};
}

std::tuple<at::Tensor, at::Tensor> paged_meta(const at::Tensor& query, const at::Tensor&,
                                              const at::Tensor& values, const OptionalTensor&,
                                              const OptionalTensor&, const at::Tensor&,
                                              const at::Tensor&, const at::Tensor&, int64_t,
                                              const OptionalTensor&, at::IntArrayRef,
                                              at::ArrayRef<double>, const OptionalTensor&) {
  const AttentionResult result = empty_result(query, values);
  return {result.output, result.logsumexp};
}

// Copies the keys or values of one token, from [heads, tokens, features], to position `place` of
// page `page`. place_stride, feature_stride: of `to`, in elements.
template <typename Bits>
void write_token(const at::Tensor& from, int64_t token, const at::Tensor& to, int64_t page,
                 int64_t place, int64_t place_stride, int64_t feature_stride) {
  const auto* source = static_cast<const Bits*>(from.const_data_ptr()) + token * from.stride(1);
  auto* target =
      static_cast<Bits*>(to.mutable_data_ptr()) + page * to.stride(0) + place * place_stride;
  for (int64_t head = 0; head < from.size(0); ++head) {
    for (int64_t feature = 0; feature < from.size(2); ++feature) {
      target[head * to.stride(1) + feature * feature_stride] =
          source[head * from.stride(0) + feature * from.stride(2)];
    }
  }
}

template <typename Bits>
void write_tokens(const at::Tensor& key_pages, const at::Tensor& value_pages,
                  const at::Tensor& keys, const at::Tensor& values, const at::Tensor& page_of_token,
                  const at::Tensor& place_of_token) {
  const auto* pages = page_of_token.const_data_ptr<int64_t>();
  const auto* places = place_of_token.const_data_ptr<int64_t>();
  const int64_t grain =
      std::max<int64_t>(1, kElementsPerThread / (keys.size(0) * keys.size(2) + 1));
  parallel_for(0, page_of_token.numel(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      write_token<Bits>(keys, token, key_pages, pages[token], places[token], key_pages.stride(3),
                        key_pages.stride(2));
      write_token<Bits>(values, token, value_pages, pages[token], places[token],
                        value_pages.stride(2), value_pages.stride(3));
    }
  });
}

void write_to_pages_cpu(const at::Tensor& key_pages, const at::Tensor& value_pages,
                        const at::Tensor& keys, const at::Tensor& values,
                        const at::Tensor& page_of_token, const at::Tensor& place_of_token) {
  const auto write = [&]<typename Bits>(Bits) {
    write_tokens<Bits>(key_pages, value_pages, keys, values, page_of_token, place_of_token);
  };
  switch (keys.element_size()) {
    case 1:
      return write(uint8_t{});
    case 2:
      return write(uint16_t{});
    case 4:
      return write(uint32_t{});
    default:
      return write(uint64_t{});
  }
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def(
      "write_to_pages(Tensor(a!) key_pages, Tensor(b!) value_pages, Tensor keys, Tensor values, "
      "Tensor page_of_token, Tensor place_of_token) -> ()");
  m.def(
      "paged_attention(Tensor query, Tensor keys, Tensor values, Tensor? key_scales, "
      "Tensor? value_scales, Tensor tables, Tensor sequences, Tensor positions, int longest, "
      "Tensor? sinks, int[] rule_integers, float[] rule_numbers, Tensor? relative_bias) -> (Tensor "
      "output, "
      "Tensor logsumexp)");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("paged_attention", paged_cpu);
  m.impl("write_to_pages", write_to_pages_cpu);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("paged_attention", aten_fallback::paged_attention);
  m.impl("write_to_pages", aten_fallback::write_to_pages);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("paged_attention", paged_meta);
  m.impl("write_to_pages", [](const at::Tensor&, const at::Tensor&, const at::Tensor&,
                              const at::Tensor&, const at::Tensor&, const at::Tensor&) {});
}

}  // namespace

void write_to_pages(const KeyValuePages& pages, const at::Tensor& keys, const at::Tensor& values,
                    const at::Tensor& page_of_token, const at::Tensor& place_of_token) {
  COLOSSAL_CHECK(keys.size(1) == page_of_token.numel() && values.size(1) == page_of_token.numel() &&
                     keys.scalar_type() == pages.keys.scalar_type() &&
                     values.scalar_type() == pages.values.scalar_type(),
                 "keys {} and values {} of {} tokens", shape_text(keys), shape_text(values),
                 page_of_token.numel());
  static const auto op = find_operator<decltype(write_to_pages_cpu)>("colossal::write_to_pages");
  op.call(pages.keys, pages.values, keys, values, page_of_token, place_of_token);
}

// A row of zeros has scale 0. Its codes are computed with the divisor 1, to avoid 0 / 0.
ScaledRows ScaledRows::of(const at::Tensor& numbers) {
  constexpr double kMost = 127;
  const at::Tensor wide = numbers.to(at::kFloat);
  const at::Tensor scales = wide.abs().amax(-1) / kMost;
  const at::Tensor divisors = scales.masked_fill(scales == 0, 1).unsqueeze(-1);
  return {(wide / divisors).round_().to(at::kChar), scales};
}

at::Tensor ScaledRows::numbers(at::ScalarType type) const {
  return (codes.to(at::kFloat) * scales.unsqueeze(-1)).to(type);
}

AttentionResult paged_attention(const at::Tensor& query, const KeyValuePages& pages,
                                const PagedTokens& tokens, const AttentionOptions& options) {
  COLOSSAL_CHECK(options.causal && !options.documents.defined() && options.prefix_lengths.empty() &&
                     options.dropout == 0,
                 "paged attention is causal, of one document, without prefixes and dropout");
  COLOSSAL_CHECK(
      query.size(1) % pages.keys.size(1) == 0 && pages.keys.size(3) % kernels::kPagePositions == 0,
      "query {}, keys {}", shape_text(query), shape_text(pages.keys));
  static const auto op = find_operator<decltype(paged_cpu)>("colossal::paged_attention");
  const auto [integers, numbers] = AttentionRule(options, query.size(2)).packed();
  const auto optional = [](const at::Tensor& tensor) {
    return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
  };
  const OptionalTensor sinks = optional(options.sinks);
  auto [output, logsumexp] =
      op.call(query, pages.keys, pages.values, optional(pages.key_scales),
              optional(pages.value_scales), tokens.tables, tokens.sequences, tokens.positions,
              tokens.longest, sinks, integers, numbers, optional(options.relative_bias));
  return {output, logsumexp};
}

}  // namespace colossal::ops
