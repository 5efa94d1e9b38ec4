// Attention a part at a time: queries and keys at any positions, keys one part after another, give
// what the whole gives.
#include <gtest/gtest.h>

#include "colossal/base/error.h"
#include "colossal/ops/attention/flash_attention.h"
#include "colossal/ops/flat_tensor.h"
#include "tests/ops/attention_kinds.h"

namespace colossal::ops {
namespace {

at::Tensor rows_of(const at::Tensor& x, const Runs& runs) {
  return x.index_select(2, positions_of(runs));
}

AttentionPart part_of(const Inputs& in, const at::Tensor& documents, const Runs& queries,
                      const Runs& keys) {
  AttentionPart part{rows_of(in.query, queries), rows_of(in.key, keys), rows_of(in.value, keys),
                     queries, keys};
  part.sinks = in.sinks;
  if (documents.defined()) {
    part.query_documents = documents.index_select(1, positions_of(queries));
    part.key_documents = documents.index_select(1, positions_of(keys));
  }
  return part;
}

// How operators are called: through the dispatcher, or our blocks with a product of our choice.
struct Kernel {
  bool dispatched = true;
  Bf16Product bf16_product = nullptr;

  void forward(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
               const AttentionResult& result) const {
    if (dispatched) return attend(part, rule, accumulate, result);
    flash_attention_forward({part, rule, accumulate, bf16_product}, result);
  }
  void backward(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
                const AttentionResult& result, const at::Tensor& output_gradient,
                const AttentionGradients& gradients) const {
    if (dispatched) {
      return attend_backward(part, rule, accumulate, result, output_gradient, gradients);
    }
    flash_attention_backward({part, rule, accumulate, bf16_product}, result, output_gradient,
                             gradients);
  }
};

// Each part's queries see one part's keys after the other, beginning with their own.
Results by_parts(const Inputs& in, const AttentionOptions& options, const std::vector<Runs>& parts,
                 const Kernel& kernel) {
  const AttentionRule rule(options, in.query.size(3));
  const auto count = static_cast<int64_t>(parts.size());
  const auto type = compute_type(in.query.scalar_type());
  Results results{at::zeros(in.gradient.sizes(), type),
                  {at::zeros(in.query.sizes(), type), at::zeros(in.key.sizes(), type),
                   at::zeros(in.value.sizes(), type)}};
  if (in.sinks.defined()) results.gradients.push_back(at::zeros(in.sinks.sizes(), type));
  for (int64_t i = 0; i < count; ++i) {
    const auto of_hop = [&](int64_t hop) { return parts[(i + hop) % count]; };
    const at::Tensor rows = positions_of(parts[i]);
    const at::Tensor query = rows_of(in.query, parts[i]);
    const at::Tensor output_gradient = rows_of(in.gradient, parts[i]);
    const AttentionResult result = empty_attention_result(query, in.value.size(3));
    for (int64_t hop = 0; hop < count; ++hop) {
      kernel.forward(part_of(in, options.documents, parts[i], of_hop(hop)), rule, hop > 0, result);
    }
    results.output.index_copy_(2, rows, result.output);
    if (in.sinks.defined()) {
      results.gradients[3].add_(sink_gradient(in.sinks, result, output_gradient));
    }
    const at::Tensor query_gradient = at::empty(query.sizes(), type);
    for (int64_t hop = 0; hop < count; ++hop) {
      const AttentionPart part = part_of(in, options.documents, parts[i], of_hop(hop));
      const at::Tensor key_gradient = at::empty(part.key.sizes(), type);
      const at::Tensor value_gradient = at::empty(part.value.sizes(), type);
      kernel.backward(part, rule, hop > 0, result, output_gradient,
                      {query_gradient, key_gradient, value_gradient});
      results.gradients[1].index_add_(2, positions_of(of_hop(hop)), key_gradient);
      results.gradients[2].index_add_(2, positions_of(of_hop(hop)), value_gradient);
    }
    results.gradients[0].index_copy_(2, rows, query_gradient);
  }
  return results;
}

void expect_right(const Shape& shape, const AttentionOptions& options,
                  const std::vector<Runs>& parts) {
  const Inputs inputs = make_inputs(shape);
  const Results expected = reference(inputs, options, mask_of(shape, options));
  for (const at::ScalarType type : all_types()) {
    SCOPED_TRACE(c10::toString(type));
    expect_all_near(by_parts(inputs.to(type), options, parts, {}), expected, tolerance_of(type));
  }
  SCOPED_TRACE("bf16 products");
  expect_all_near(by_parts(inputs.to(at::kBFloat16), options, parts, {false, scalar_product}),
                  expected, tolerance_of(at::kBFloat16));
}

// Zigzags whose borders fall on no block, and parts in no order at all.
const std::vector<Runs> kTwo = {{{0, 76}, {226, 301}}, {{76, 226}}};
const std::vector<Runs> kThree = {{{0, 51}, {251, 301}}, {{51, 101}, {201, 251}}, {{101, 201}}};
const std::vector<Runs> kMixed = {{{250, 301}, {3, 5}}, {{0, 3}, {5, 6}, {40, 250}}, {{6, 40}}, {}};

TEST(AttentionPart, PartsMakeTheWhole) {
  for (const std::vector<Runs>& parts : {kTwo, kThree, kMixed}) {
    expect_right({1, 2, 2, 301, 301, 32, 32}, kCausal, parts);
    expect_right({2, 1, 1, 301, 301, 9, 24}, kFull, parts);
  }
  expect_right({2, 4, 2, 10, 10, 16, 16}, kCausal, {{{0, 2}, {9, 10}}, {{2, 4}, {8, 9}}, {{4, 8}}});
}

TEST(AttentionPart, SumsTheGradientsOfTheQueriesOfAKeyHead) {
  expect_right({2, 6, 2, 301, 301, 16, 16}, kCausal, kThree);
}

TEST(AttentionPart, DropsByThePlacesInTheSequence) {
  AttentionOptions options = with_dropout(kCausal);
  options.head_begin = 3;
  expect_right({3, 2, 1, 301, 301, 16, 16}, options, kTwo);
  expect_right({3, 2, 2, 301, 301, 16, 16}, with_dropout(kFull), kMixed);
}

// With rows of the identity for values, an output is the row of its probabilities: which of them
// are zero is the mask.
TEST(AttentionPart, TheDropoutMaskOfAPartIsThatPartOfTheWhole) {
  constexpr int64_t kSequence = 301;
  Inputs inputs = make_inputs({3, 1, 1, kSequence, kSequence, 16, kSequence});
  inputs.value = at::eye(kSequence, at::kDouble).expand({3, 1, kSequence, kSequence}).contiguous();
  const AttentionOptions options = with_dropout(kFull);
  for (const at::ScalarType type : all_types()) {
    const Inputs in = inputs.to(type);
    const at::Tensor whole = attention(in.query, in.key, in.value, options);
    EXPECT_GT(whole.eq(0).sum().item<int64_t>(), 0);
    for (const std::vector<Runs>& parts : {kTwo, kMixed}) {
      for (const Runs& queries : parts) {
        for (const Runs& keys : parts) {
          const AttentionPart part = part_of(in, {}, queries, keys);
          const AttentionResult result = empty_attention_result(part.query, kSequence);
          attend(part, AttentionRule(options, 16), false, result);
          const at::Tensor of_part = rows_of(whole, queries).index_select(3, positions_of(keys));
          EXPECT_TRUE(result.output.index_select(3, positions_of(keys)).eq(0).equal(of_part.eq(0)));
        }
      }
    }
  }
}

TEST(AttentionPart, KeepsDocumentsApart) {
  const Shape shape{3, 2, 1, 301, 301, 16, 16};
  for (AttentionOptions options : {kCausal, kFull, with_dropout(kCausal)}) {
    options.documents = make_documents(shape);
    expect_right(shape, options, kTwo);
  }
}

TEST(AttentionPart, PartsOfEveryKindMakeTheWhole) {
  for (const AttentionKind& kind : attention_kinds()) {
    SCOPED_TRACE(kind.name());
    const Shape shape{3, 3, kind.kv_heads, 301, 301, 8, 8};
    const AttentionOptions options = kind.options(shape);
    const Inputs inputs = kind.inputs(shape);
    const Results expected = reference(inputs, options, mask_of(shape, options));
    for (const at::ScalarType type : all_types()) {
      expect_all_near(by_parts(inputs.to(type), options, kind.causal ? kThree : kMixed, {}),
                      expected, tolerance_of(type));
    }
  }
}

// Hops of a ring that nobody sees: nothing is read, nothing changes.
TEST(AttentionPart, KeysBeforeAllWindowsAreNotTouched) {
  for (const at::ScalarType type : all_types()) {
    const Inputs in = make_inputs({1, 2, 2, 300, 300, 16, 16}).to(type);
    AttentionOptions options = kCausal;
    options.window = 50;
    const AttentionRule rule(options, 16);
    const Runs late{{200, 300}}, early{{0, 151}};
    const AttentionPart own = part_of(in, {}, late, late);
    AttentionPart part = part_of(in, {}, late, early);
    part.key.fill_(NAN);
    part.value.fill_(NAN);
    const AttentionResult result = empty_attention_result(part.query, 16);
    attend(own, rule, false, result);
    const at::Tensor output = result.output.clone(), logsumexp = result.logsumexp.clone();
    attend(part, rule, true, result);
    EXPECT_TRUE(result.output.equal(output));
    EXPECT_TRUE(result.logsumexp.equal(logsumexp));
    for (const bool accumulate : {false, true}) {
      const AttentionGradients gradients{at::ones_like(part.query), at::ones_like(part.key),
                                         at::ones_like(part.value)};
      attend_backward(part, rule, accumulate, result, rows_of(in.gradient, late), gradients);
      EXPECT_TRUE(gradients.query.eq(accumulate ? 1 : 0).all().item<bool>());
      EXPECT_TRUE(gradients.key.eq(0).all().item<bool>());
      EXPECT_TRUE(gradients.value.eq(0).all().item<bool>());
    }
  }
}

// A query that saw nothing stays at nothing, whatever it hears of next.
TEST(AttentionPart, WhoSeesNothingGivesNothing) {
  for (const at::ScalarType type : all_types()) {
    SCOPED_TRACE(c10::toString(type));
    const Inputs in = make_inputs({2, 4, 2, 100, 100, 16, 16}).to(type);
    const AttentionRule rule(kCausal, 16);
    const Runs early{{0, 40}}, late{{40, 100}}, none{};
    const auto at_rows = [&](const Runs& runs) { return rows_of(in.query, runs); };
    const AttentionResult result = empty_attention_result(at_rows(early), 16);
    for (const Runs& keys : {late, none}) {
      for (const bool accumulate : {false, true}) {
        const AttentionPart part = part_of(in, {}, early, keys);
        attend(part, rule, accumulate, result);
        EXPECT_TRUE(result.output.eq(0).all().item<bool>());
        EXPECT_TRUE(result.logsumexp.eq(-INFINITY).all().item<bool>());
        const AttentionGradients gradients{at::zeros_like(part.query), at::ones_like(part.key),
                                           at::ones_like(part.value)};
        attend_backward(part, rule, accumulate, result, rows_of(in.gradient, early), gradients);
        for (const at::Tensor& gradient : {gradients.query, gradients.key, gradients.value}) {
          EXPECT_TRUE(gradient.eq(0).all().item<bool>());
        }
      }
    }
    // Keys in full view, then as before.
    attend(part_of(in, {}, early, early), rule, true, result);
    expect_near(
        result.output,
        attention(at_rows(early), rows_of(in.key, early), rows_of(in.value, early), kCausal),
        tolerance_of(type));
    const at::Tensor output = result.output.clone(), logsumexp = result.logsumexp.clone();
    attend(part_of(in, {}, early, late), rule, true, result);
    EXPECT_TRUE(result.output.equal(output));
    EXPECT_TRUE(result.logsumexp.equal(logsumexp));
    // No queries: the keys have no gradient.
    const AttentionPart unseen = part_of(in, {}, none, late);
    const AttentionGradients gradients{at::empty_like(unseen.query), at::ones_like(unseen.key),
                                       at::ones_like(unseen.value)};
    attend_backward(unseen, rule, false, empty_attention_result(unseen.query, 16),
                    rows_of(in.gradient, none), gradients);
    EXPECT_TRUE(gradients.key.eq(0).all().item<bool>());
    EXPECT_TRUE(gradients.value.eq(0).all().item<bool>());
  }
}

// Neighbours in a block of queries of which some see a key and some see none.
TEST(AttentionPart, WhoSeesNothingDoesNotDisturbItsNeighbours) {
  for (const at::ScalarType type : all_types()) {
    SCOPED_TRACE(c10::toString(type));
    const Inputs in = make_inputs({2, 4, 2, 40, 40, 16, 16}).to(type);
    const AttentionRule rule(kCausal, 16);
    const AttentionPart part = part_of(in, {}, {{0, 40}}, {{20, 40}});
    const AttentionResult result = empty_attention_result(in.query, 16);
    attend(part, rule, false, result);
    const AttentionGradients gradients{at::empty_like(in.query), at::empty_like(part.key),
                                       at::empty_like(part.value)};
    attend_backward(part, rule, false, result, in.gradient, gradients);
    for (const at::Tensor& of_queries : {result.output, gradients.query}) {
      EXPECT_TRUE(of_queries.narrow(2, 0, 20).eq(0).all().item<bool>());
    }
    const Inputs seeing{rows_of(in.query, {{20, 40}}), part.key, part.value,
                        rows_of(in.gradient, {{20, 40}})};
    const Results expected = differentiate(
        seeing, [](const Inputs& x) { return attention(x.query, x.key, x.value, kCausal); });
    expect_all_near({result.output.narrow(2, 20, 20),
                     {gradients.query.narrow(2, 20, 20), gradients.key, gradients.value}},
                    expected, tolerance_of(type));
  }
}

// The result of bf16 queries is not rounded until the last key was seen.
TEST(AttentionPart, ResultsAreInTheTypeOfTheSums) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor query = at::empty({2, 3, 5, 8}, type);
    const AttentionResult result = empty_attention_result(query, 7);
    EXPECT_EQ(result.output.sizes(), at::IntArrayRef({2, 3, 5, 7}));
    EXPECT_EQ(result.logsumexp.sizes(), at::IntArrayRef({2, 3, 5}));
    EXPECT_TRUE(result.output.transpose(1, 2).is_contiguous());
    EXPECT_EQ(result.output.scalar_type(), compute_type(type));
    EXPECT_EQ(result.logsumexp.scalar_type(), compute_type(type));
  }
}

// Makes LibTorch hand out memory that is full of NaN.
struct BadMemory {
  BadMemory() { at::globalContext().setDeterministicAlgorithms(true, false); }
  ~BadMemory() { at::globalContext().setDeterministicAlgorithms(false, false); }
};

// Blocks of an odd number of keys are multiplied with one more, which must be there.
TEST(AttentionPart, ReadsNoMemoryThatItDidNotWrite) {
  const BadMemory bad;
  ASSERT_TRUE(at::empty({3}, at::kBFloat16).isnan().all().item<bool>());
  const std::vector<Runs> odd = {{{0, 5}, {69, 72}}, {{5, 69}}};
  expect_right({1, 2, 1, 72, 72, 9, 7}, kCausal, odd);
  expect_right({3, 2, 1, 72, 72, 9, 7}, with_dropout(kCausal), odd);
}

TEST(AttentionPart, RunsOnMeta) {
  const at::TensorOptions meta = at::TensorOptions(at::kMeta).dtype(at::kFloat);
  const at::Tensor query = at::empty({2, 4, 5, 8}, meta), key = at::empty({2, 2, 7, 8}, meta);
  const AttentionPart part{query, key, key, {{0, 2}, {9, 12}}, {{2, 9}}};
  const AttentionResult result = empty_attention_result(query, 8);
  EXPECT_TRUE(result.output.is_meta());
  attend(part, AttentionRule(kCausal, 8), false, result);
  attend_backward(part, AttentionRule(kCausal, 8), false, result, query, {query, key, key});
}

TEST(AttentionPart, RefusesWhatDoesNotFit) {
  const Inputs in = make_inputs({2, 4, 2, 10, 10, 8, 8});
  const AttentionRule rule(kCausal, 8);
  const AttentionResult result = empty_attention_result(in.query, 8);
  AttentionPart part{in.query, in.key, in.value, {{0, 9}}, {{0, 10}}};
  EXPECT_THROW(attend(part, rule, false, result), InternalError);
  part.query_positions = {{0, 10}};
  part.key_documents = at::zeros({2, 10}, at::kLong);
  EXPECT_THROW(attend(part, rule, false, result), InternalError);
  part.query_documents = at::zeros({2, 9}, at::kLong);
  EXPECT_THROW(attend(part, rule, false, result), InternalError);
  part.query_documents = part.key_documents;
  attend(part, rule, false, result);
}

}  // namespace
}  // namespace colossal::ops
