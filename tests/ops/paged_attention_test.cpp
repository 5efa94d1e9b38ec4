#include "colossal/ops/attention/paged_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "colossal/ops/attention/attention.h"
#include "colossal/ops/fallback/aten_fallback.h"
#include "tests/ops/tensors.h"

namespace colossal::ops::paged {
namespace {

constexpr int64_t kHeads = 6, kHeadSize = 20, kValueSize = 36, kPageSize = 16, kPages = 12;
// The last positions of three sequences, and their pages: any order, the first two share one.
const std::vector<int64_t> kLengths = {1, 37, 80};
const std::vector<std::vector<int64_t>> kTables = {{7}, {3, 9, 0}, {3, 5, 11, 2, 8}};

struct Kind {
  int64_t kv_heads, window;
  bool capped, alibi, sinks, biased;
};
const std::vector<Kind> kKinds = {
    {6, 0, false, false, false, false}, {2, 0, false, false, false, false},
    {1, 33, false, false, true, false}, {3, 5, true, false, false, false},
    {2, 16, true, true, true, false},   {2, 0, false, true, false, false},
    {3, 0, false, false, false, true},  {1, 33, false, false, true, true}};

struct Problem {
  at::Tensor query;
  KeyValuePages pages;
  PagedTokens tokens;
  AttentionOptions options;
  at::Tensor sinks;
  std::vector<double> slopes = alibi_slopes(kHeads);

  // Of each sequence the tokens at its end and in its middle. Places that no token has written hold
  // NaN.
  Problem(const Kind& kind, at::ScalarType type) {
    const auto numbers = [&](at::IntArrayRef sizes, uint64_t seed) {
      return normal(sizes, at::kBFloat16, seed).to(type);
    };
    pages = {numbers({kPages, kind.kv_heads, kHeadSize, kPageSize}, 1),
             numbers({kPages, kind.kv_heads, kPageSize, kValueSize}, 2)};
    tokens.tables = at::zeros({3, 5}, at::kLong);
    std::vector<int64_t> sequences, positions;
    for (int64_t sequence = 0; sequence < 3; ++sequence) {
      const auto& table = kTables[sequence];
      for (int64_t page = 0; page < std::ssize(table); ++page) {
        tokens.tables[sequence][page] = table[page];
      }
      const int64_t length = kLengths[sequence];
      for (const int64_t position : {length - 1, length / 2}) {
        sequences.push_back(sequence);
        positions.push_back(position);
      }
      const int64_t filled = (length - 1) % kPageSize + 1;
      pages.keys[table.back()].narrow(2, filled, kPageSize - filled).fill_(NAN);
      pages.values[table.back()].narrow(1, filled, kPageSize - filled).fill_(NAN);
    }
    tokens.sequences = at::tensor(sequences, at::kLong);
    tokens.positions = at::tensor(positions, at::kLong);
    tokens.longest = *std::ranges::max_element(positions) + 1;
    query = numbers({std::ssize(positions), kHeads, kHeadSize}, 3);
    options = {.window = kind.window, .scale = 0.3};
    if (kind.capped) options.soft_cap = 1.5;
    if (kind.alibi) options.alibi_slopes = slopes;
    if (kind.sinks) options.sinks = numbers({kHeads}, 4);
    if (kind.biased) options.relative_bias = numbers({kHeads, 2 * 12 + 1}, 5);
  }
  Problem(const Problem&) = delete;

  AttentionResult run() const { return paged_attention(query, pages, tokens, options); }

  // By attention to the whole sequence's keys, in fp64.
  at::Tensor expected() const {
    std::vector<at::Tensor> rows;
    for (int64_t i = 0; i < query.size(0); ++i) {
      const int64_t sequence = tokens.sequences[i].item<int64_t>();
      const int64_t length = tokens.positions[i].item<int64_t>() + 1;
      const at::Tensor table = at::tensor(kTables[sequence], at::kLong);
      const auto of_pages = [&](const at::Tensor& taken) {
        return taken.transpose(0, 1)
            .flatten(1, 2)
            .narrow(1, 0, length)
            .unsqueeze(0)
            .to(at::kDouble);
      };
      AttentionOptions wide = options;
      if (wide.sinks.defined()) wide.sinks = wide.sinks.to(at::kDouble);
      if (wide.relative_bias.defined()) wide.relative_bias = wide.relative_bias.to(at::kDouble);
      rows.push_back(attention(query[i].unsqueeze(1).unsqueeze(0).to(at::kDouble),
                               of_pages(pages.keys.index_select(0, table).transpose(2, 3)),
                               of_pages(pages.values.index_select(0, table)), wide)
                         .squeeze(2));
    }
    return at::cat(rows);
  }
};

double error_of(const at::Tensor& found, const at::Tensor& expected) {
  return ((found.to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
}

TEST(PagedAttention, GivesWhatAttentionToTheWholeSequenceGives) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(fmt::format("{} heads of keys, window {}", kind.kv_heads, kind.window));
    for (const auto& [type, tolerance] :
         {std::pair{at::kDouble, 1e-14}, {at::kFloat, 5e-7}, {at::kBFloat16, 3e-3}}) {
      const Problem problem(kind, type);
      const AttentionResult found = problem.run();
      EXPECT_LE(error_of(found.output, problem.expected()), tolerance);
      const AttentionRule rule(problem.options, kHeadSize);
      const auto [integers, numbers] = rule.packed();
      const auto [composite, logsumexp] = aten_fallback::paged_attention(
          problem.query, problem.pages.keys, problem.pages.values, std::nullopt, std::nullopt,
          problem.tokens.tables, problem.tokens.sequences, problem.tokens.positions,
          problem.tokens.longest,
          problem.options.sinks.defined() ? std::optional(problem.options.sinks) : std::nullopt,
          integers, numbers,
          problem.options.relative_bias.defined() ? std::optional(problem.options.relative_bias)
                                                  : std::nullopt);
      EXPECT_LE(error_of(composite, problem.expected()), tolerance);
      EXPECT_LE(error_of(found.logsumexp, logsumexp.to(at::kDouble)), tolerance);
    }
  }
}

// ... of the numbers that int8 and its scales stand for.
TEST(PagedAttention, ReadsInt8Pages) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(fmt::format("{} heads of keys, window {}", kind.kv_heads, kind.window));
    for (const auto& [type, tolerance] :
         {std::pair{at::kDouble, 1e-7}, {at::kFloat, 1e-6}, {at::kBFloat16, 3e-3}}) {
      Problem problem(kind, type);
      const ScaledRows keys = ScaledRows::of(problem.pages.keys.transpose(2, 3).nan_to_num(0.3)),
                       values = ScaledRows::of(problem.pages.values.nan_to_num(0.3));
      problem.pages = {keys.numbers(at::kDouble).transpose(2, 3), values.numbers(at::kDouble)};
      const at::Tensor expected = problem.expected();
      problem.pages = {keys.codes.transpose(2, 3).contiguous(), values.codes, keys.scales,
                       values.scales};
      const AttentionResult found = problem.run();
      EXPECT_LE(error_of(found.output, expected), tolerance);
      const auto [integers, numbers] = AttentionRule(problem.options, kHeadSize).packed();
      const auto [composite, logsumexp] = aten_fallback::paged_attention(
          problem.query, problem.pages.keys, problem.pages.values, keys.scales, values.scales,
          problem.tokens.tables, problem.tokens.sequences, problem.tokens.positions,
          problem.tokens.longest,
          problem.options.sinks.defined() ? std::optional(problem.options.sinks) : std::nullopt,
          integers, numbers,
          problem.options.relative_bias.defined() ? std::optional(problem.options.relative_bias)
                                                  : std::nullopt);
      EXPECT_LE(error_of(composite, expected), tolerance);
      EXPECT_LE(error_of(found.logsumexp, logsumexp.to(at::kDouble)), tolerance);
    }
  }
}

TEST(PagedAttention, ScaledRowsAreRoundedToNearest) {
  const at::Tensor numbers = normal({7, 33}, at::kFloat, 5);
  const ScaledRows rows = ScaledRows::of(numbers);
  EXPECT_TRUE(rows.codes.abs().amax(-1).eq(127).all().item<bool>());
  const at::Tensor error = (rows.numbers(at::kDouble) - numbers).abs();
  EXPECT_TRUE((error <= rows.scales.unsqueeze(-1) * 0.5000001).all().item<bool>());
  EXPECT_TRUE(ScaledRows::of(at::zeros({2, 3})).numbers(at::kFloat).eq(0).all().item<bool>());
}

TEST(PagedAttention, ATokensBitsDependNeitherOnOthersNorOnThreads) {
  const int before = at::get_num_threads();
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    Problem problem(kKinds[4], type);
    at::set_num_threads(1);
    const at::Tensor all = problem.run().output;
    at::set_num_threads(3);
    EXPECT_TRUE(problem.run().output.equal(all));
    problem.query = problem.query.narrow(0, 3, 1);
    problem.tokens.sequences = problem.tokens.sequences.narrow(0, 3, 1);
    problem.tokens.positions = problem.tokens.positions.narrow(0, 3, 1);
    EXPECT_TRUE(problem.run().output.equal(all.narrow(0, 3, 1)));
  }
  at::set_num_threads(before);
}

// Of strides as the heads of a fused product have them.
TEST(PagedAttention, TokensAreWrittenToTheirPlaces) {
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat, at::kDouble, at::kChar}) {
    const at::Tensor heads = at::randint(-99, 99, {5, 3, kHeadSize + kValueSize}).to(type);
    const at::Tensor keys = heads.narrow(2, 0, kHeadSize).transpose(0, 1);
    const at::Tensor values = heads.narrow(2, kHeadSize, kValueSize).transpose(0, 1);
    const at::Tensor pages = at::tensor({4, 4, 0, 2, 1}, at::kLong);
    const at::Tensor places = at::tensor({0, 15, 3, 0, 7}, at::kLong);
    const auto empty_pages = [&]() -> KeyValuePages {
      return {.keys = at::zeros({5, 3, kHeadSize, kPageSize}, type),
              .values = at::zeros({5, 3, kPageSize, kValueSize}, type),
              .key_scales = {},
              .value_scales = {}};
    };
    const KeyValuePages written = empty_pages(), expected = empty_pages();
    write_to_pages(written, keys, values, pages, places);
    aten_fallback::write_to_pages(expected.keys, expected.values, keys, values, pages, places);
    EXPECT_TRUE(at::equal(written.keys, expected.keys)) << type;
    EXPECT_TRUE(at::equal(written.values, expected.values)) << type;
    EXPECT_TRUE(at::equal(written.keys.select(3, 15)[4], keys.select(1, 1))) << type;
    EXPECT_TRUE(at::equal(written.values.select(2, 7)[1], values.select(1, 4))) << type;
  }
}

}  // namespace
}  // namespace colossal::ops::paged
