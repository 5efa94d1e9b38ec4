#include "colossal/ops/attention.h"

#include <gtest/gtest.h>

#include "colossal/base/error.h"
#include "tests/ops/attention_reference.h"

namespace colossal::ops {
namespace {

Results ours(const Inputs& in, const AttentionOptions& options) {
  return differentiate(
      in, [&](const Inputs& x) { return attention(x.query, x.key, x.value, options); });
}

void expect_right(const Shape& shape, const AttentionOptions& options) {
  const Inputs inputs = make_inputs(shape);
  const Results expected = reference(inputs, options, mask_of(shape, options));
  for (const at::ScalarType type : all_types()) {
    SCOPED_TRACE(c10::toString(type));
    expect_all_near(ours(inputs.to(type), options), expected, tolerance_of(type));
  }
}

TEST(Attention, EqualsItsDefinition) {
  expect_right({2, 4, 4, 33, 33, 16, 16}, {.causal = true, .scale = 0.25});
  expect_right({2, 3, 3, 70, 70, 9, 9}, {.causal = true, .scale = 0.3});
  expect_right({2, 3, 3, 20, 45, 8, 8}, {.causal = false, .scale = 0.3});
}

TEST(Attention, SharesKeysAmongQueryHeads) {
  expect_right({2, 6, 2, 40, 40, 16, 16}, {.causal = true, .scale = 0.25});
  expect_right({3, 6, 2, 40, 40, 16, 16}, with_dropout({.causal = true, .scale = 0.25}));
}

TEST(Attention, AlignsTheLastQueryWithTheLastKey) {
  expect_right({2, 4, 2, 5, 37, 16, 16}, {.causal = true, .scale = 0.25});
  expect_right({2, 4, 2, 1, 37, 16, 16}, {.causal = true, .scale = 0.25});
  expect_right({3, 4, 4, 5, 37, 16, 16}, with_dropout({.causal = true, .scale = 0.25}));
}

TEST(Attention, TakesValuesOfAnotherSize) {
  expect_right({2, 4, 2, 33, 33, 16, 24}, {.causal = true, .scale = 0.25});
}

TEST(Attention, DropsProbabilitiesByTheirCoordinates) {
  expect_right({3, 4, 4, 33, 33, 16, 16}, with_dropout({.causal = true, .scale = 0.25}));
  expect_right({3, 2, 2, 150, 150, 8, 8}, with_dropout({.causal = true, .scale = 0.25}));
  expect_right({3, 2, 2, 10, 530, 8, 8}, with_dropout({.causal = false, .scale = 0.25}));
}

TEST(Attention, KeepsDocumentsApart) {
  const Shape shape{3, 4, 2, 100, 100, 16, 16};
  for (AttentionOptions options : {AttentionOptions{.causal = true, .scale = 0.25},
                                   AttentionOptions{.causal = false, .scale = 0.25}}) {
    options.documents = make_documents(shape);
    expect_right(shape, options);
    expect_right(shape, with_dropout(options));
  }
}

TEST(Attention, TheDropoutMaskDependsOnNoBatchRowOrLayout) {
  const Shape shape{3, 4, 4, 40, 40, 16, 16};
  const AttentionOptions options = with_dropout({.causal = true, .scale = 0.25});
  const Inputs inputs = make_inputs(shape).to(at::kFloat);
  const at::Tensor whole = attention(inputs.query, inputs.key, inputs.value, options);
  const auto cut = [&](int64_t dim, int64_t begin, int64_t size, AttentionOptions cut_options) {
    return attention(inputs.query.narrow(dim, begin, size), inputs.key.narrow(dim, begin, size),
                     inputs.value.narrow(dim, begin, size), cut_options);
  };
  AttentionOptions sample = options;
  sample.sample_ids = std::span(kSamples).subspan(1, 1);
  EXPECT_TRUE(cut(0, 1, 1, sample).equal(whole.narrow(0, 1, 1)));
  AttentionOptions heads = options;
  heads.head_begin = 2;
  EXPECT_TRUE(cut(1, 2, 2, heads).equal(whole.narrow(1, 2, 2)));
  // The first positions alone: causal, so that they see the same keys.
  expect_near(cut(2, 0, 25, options), whole.narrow(2, 0, 25), 1e-6);
}

TEST(Attention, WithoutDropoutNeedsNoSampleIdsAndDrawsNothing) {
  const Inputs inputs = make_inputs({2, 4, 4, 33, 33, 16, 16}).to(at::kFloat);
  AttentionOptions options{.causal = true, .scale = 0.25};
  const at::Tensor plain = attention(inputs.query, inputs.key, inputs.value, options);
  options.random_key = {1, 2};
  EXPECT_TRUE(attention(inputs.query, inputs.key, inputs.value, options).equal(plain));
}

TEST(Attention, TheDefaultScaleIsThatOfTheHeadSize) {
  const Inputs inputs = make_inputs({2, 4, 4, 33, 33, 16, 16}).to(at::kFloat);
  EXPECT_TRUE(attention(inputs.query, inputs.key, inputs.value, {})
                  .equal(attention(inputs.query, inputs.key, inputs.value, {.scale = 0.25})));
}

TEST(Attention, HeadsOfATokenLieSideBySide) {
  for (const double probability : {0.0, 0.2}) {
    const Inputs inputs = make_inputs({3, 4, 4, 33, 33, 16, 16}).to(at::kFloat);
    AttentionOptions options = with_dropout({});
    options.dropout = probability;
    const Results results = ours(inputs, options);
    EXPECT_TRUE(results.output.transpose(1, 2).is_contiguous());
    for (const at::Tensor& gradient : results.gradients) {
      EXPECT_TRUE(gradient.transpose(1, 2).is_contiguous());
    }
  }
}

TEST(Attention, TakesAnEmptyBatch) {
  for (const at::ScalarType type : all_types()) {
    const Results results = ours(make_inputs({0, 4, 2, 5, 5, 8, 8}).to(type), {});
    EXPECT_EQ(results.output.sizes(), at::IntArrayRef({0, 4, 5, 8}));
    EXPECT_EQ(results.gradients[1].sizes(), at::IntArrayRef({0, 2, 5, 8}));
  }
}

TEST(Attention, RefusesShapesThatDoNotFit) {
  const Inputs a = make_inputs({2, 4, 3, 5, 5, 8, 8});
  EXPECT_THROW(attention(a.query, a.key, a.value, {}), InternalError);
  const Inputs b = make_inputs({2, 4, 4, 6, 5, 8, 8});
  EXPECT_THROW(attention(b.query, b.key, b.value, {.causal = true}), InternalError);
  const Inputs c = make_inputs({2, 4, 4, 5, 5, 8, 8});
  EXPECT_THROW(attention(c.query, c.key, c.value, with_dropout({})), InternalError);
  for (const at::Tensor& documents :
       {at::zeros({2, 4}, at::kLong), at::zeros({1, 5}, at::kLong), at::zeros({2, 5}, at::kInt)}) {
    EXPECT_THROW(attention(c.query, c.key, c.value, {.documents = documents}), InternalError);
  }
}

void expect_same_on_meta(const Inputs& inputs, AttentionOptions options) {
  const auto meta = [](const at::Tensor& x) { return x.to(at::kMeta); };
  const Results real = ours(inputs, options);
  if (options.documents.defined()) options.documents = meta(options.documents);
  const Results dry = ours(
      {meta(inputs.query), meta(inputs.key), meta(inputs.value), meta(inputs.gradient)}, options);
  expect_same_shape(dry.output, real.output);
  for (size_t i = 0; i < 3; ++i) expect_same_shape(dry.gradients[i], real.gradients[i]);
}

TEST(Attention, RunsOnMetaWithTheShapesOfTheRealOne) {
  for (const at::ScalarType type : all_types()) {
    for (const double probability : {0.0, 0.2}) {
      for (const Shape& shape : {Shape{3, 4, 2, 33, 33, 16, 16}, Shape{3, 4, 2, 5, 33, 16, 8}}) {
        AttentionOptions options = with_dropout({});
        options.dropout = probability;
        expect_same_on_meta(make_inputs(shape).to(type), options);
        options.documents = make_documents(shape);
        expect_same_on_meta(make_inputs(shape).to(type), options);
      }
    }
  }
}

}  // namespace
}  // namespace colossal::ops
