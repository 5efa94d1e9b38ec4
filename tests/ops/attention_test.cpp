#include "colossal/ops/attention/attention.h"

#include <gtest/gtest.h>

#include "colossal/base/error.h"
#include "colossal/ops/fallback/meta_kernels.h"
#include "tests/ops/attention_kinds.h"

namespace colossal::ops {
namespace {

Results ours(const Inputs& in, AttentionOptions options) {
  return differentiate(in, [&](const Inputs& x) {
    options.sinks = x.sinks;
    options.relative_bias = x.bias;
    return attention(x.query, x.key, x.value, options);
  });
}

void expect_right(const Shape& shape, const AttentionOptions& options, const Inputs& inputs) {
  const Results expected = reference(inputs, options, mask_of(shape, options));
  for (const at::ScalarType type : all_types()) {
    SCOPED_TRACE(c10::toString(type));
    expect_all_near(ours(inputs.to(type), options), expected, tolerance_of(type));
  }
}

void expect_right(const Shape& shape, const AttentionOptions& options) {
  expect_right(shape, options, make_inputs(shape));
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
  AttentionOptions cross = with_dropout({.causal = false, .scale = 0.25});
  cross.query_positions = {{3, 9}, {40, 44}};
  expect_right({3, 2, 2, 10, 530, 8, 8}, cross);
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

// Of fewer and of more distances than there are.
TEST(Attention, AddsARelativeBias) {
  for (const AttentionKind& kind : attention_kinds()) {
    if (kind.capped) continue;
    SCOPED_TRACE(kind.name());
    for (const Shape& shape :
         {Shape{3, 3, kind.kv_heads, 150, 150, 8, 8}, Shape{3, 3, kind.kv_heads, 20, 140, 8, 8},
          Shape{3, 3, kind.kv_heads, 1, 40, 8, 8}}) {
      for (const int64_t most : {7, 200}) {
        Inputs inputs = kind.inputs(shape);
        inputs.bias = normal({shape.heads, 2 * most + 1}, at::kBFloat16, 11).to(at::kDouble);
        expect_right(shape, kind.options(shape), inputs);
      }
    }
  }
}

TEST(Attention, EveryKindEqualsItsDefinition) {
  for (const AttentionKind& kind : attention_kinds()) {
    SCOPED_TRACE(kind.name());
    for (const Shape& shape :
         {Shape{3, 3, kind.kv_heads, 33, 33, 8, 8}, Shape{3, 3, kind.kv_heads, 1, 120, 8, 8}}) {
      expect_right(shape, kind.options(shape), kind.inputs(shape));
    }
  }
}

// What LibTorch computes with all of it in one mask that is added to the scores.
TEST(Attention, EqualsLibTorchWithTheMaskWrittenOut) {
  constexpr int64_t kBatch = 3, kHeads = 3, kQueries = 70, kKeys = 90;
  const Shape shape{kBatch, kHeads, kHeads, kQueries, kKeys, 16, 16};
  for (const AttentionKind& kind : attention_kinds()) {
    if (kind.capped || kind.sinks || kind.dropout) continue;
    SCOPED_TRACE(kind.name());
    const AttentionOptions options = kind.options(shape);
    const at::Tensor mask = at::empty({kBatch, kHeads, kQueries, kKeys}, at::kDouble);
    auto added = mask.accessor<double, 4>();
    for (int64_t b = 0; b < kBatch; ++b) {
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t q = 0; q < kQueries; ++q) {
          for (int64_t k = 0; k < kKeys; ++k) {
            const int64_t position = kKeys - kQueries + q;
            bool seen = !options.causal || k <= position;
            if (options.window > 0) seen = seen && std::abs(k - position) < options.window;
            if (kind.prefix) seen = seen || k < options.prefix_lengths[b];
            if (kind.documents) {
              const auto ids = options.documents.accessor<int64_t, 2>();
              seen = seen && ids[b][k] == ids[b][position];
            }
            // BLOOM adds slope * key: the same but for a number for each query.
            const double bias = kind.alibi ? options.alibi_slopes[h] * static_cast<double>(k) : 0;
            added[b][h][q][k] = seen ? bias : -INFINITY;
          }
        }
      }
    }
    const Inputs inputs = make_inputs(shape);
    const Results expected = differentiate(inputs, [&](const Inputs& x) {
      return at::scaled_dot_product_attention(x.query, x.key, x.value, mask, 0, false,
                                              options.scale);
    });
    expect_all_near(ours(inputs, options), expected, 1e-12);
  }
}

// transformers' build_alibi_tensor() for BLOOM.
TEST(Attention, SlopesOfAlibiForAnyNumberOfHeads) {
  EXPECT_EQ(alibi_slopes(1), std::vector<double>({0x1p-8}));
  EXPECT_EQ(alibi_slopes(4), std::vector<double>({0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8}));
  EXPECT_EQ(alibi_slopes(6), std::vector<double>({0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8, 0x1p-1, 0x1p-3}));
  EXPECT_EQ(alibi_slopes(16)[0], std::exp2(-0.5));
}

// With a cache: what comes before the window of one query is not read.
TEST(Attention, OneQueryReadsTheKeysOfItsWindowOnly) {
  for (const at::ScalarType type : all_types()) {
    for (const double soft_cap : {0.0, 2.0}) {
      Inputs inputs = make_inputs({2, 4, 2, 1, 300, 16, 16}).to(type);
      AttentionOptions options{.causal = true, .window = 37, .scale = 0.25, .soft_cap = soft_cap};
      const at::Tensor expected = attention(inputs.query, inputs.key, inputs.value, options);
      inputs.key.narrow(2, 0, 263).fill_(NAN);
      inputs.value.narrow(2, 0, 263).fill_(NAN);
      EXPECT_TRUE(attention(inputs.query, inputs.key, inputs.value, options).equal(expected));
      options.window = 38;
      EXPECT_FALSE(attention(inputs.query, inputs.key, inputs.value, options).equal(expected));
    }
  }
}

// Any numbers of queries and keys; memory that is padded is a document of its own.
TEST(Attention, QueriesHaveDocumentsOfTheirOwn) {
  for (const at::ScalarType type : all_types()) {
    const Inputs inputs = make_inputs({2, 4, 2, 50, 23, 16, 16}).to(type);
    const at::Tensor documents = at::zeros({2, 23}, at::kLong);
    documents[1].narrow(0, 9, 14).fill_(-1);
    const at::Tensor padded = attention(inputs.query, inputs.key, inputs.value,
                                        {.causal = false,
                                         .documents = documents,
                                         .query_documents = at::zeros({2, 50}, at::kLong)});
    for (const int64_t sample : {0, 1}) {
      const auto of = [&](const at::Tensor& x) { return x.narrow(0, sample, 1); };
      const auto seen = [&](const at::Tensor& x) {
        return of(x).narrow(2, 0, sample == 0 ? 23 : 9);
      };
      expect_near(
          of(padded),
          attention(of(inputs.query), seen(inputs.key), seen(inputs.value), {.causal = false}),
          tolerance_of(type));
    }
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
  const std::vector<double> slopes(3);
  const std::vector<int64_t> lengths(3);
  const at::Tensor documents = at::zeros({2, 5}, at::kLong);
  const std::vector<AttentionOptions> bad{{.window = -1},
                                          {.prefix_lengths = lengths},
                                          {.soft_cap = -1},
                                          {.alibi_slopes = slopes},
                                          {.soft_cap = 1, .relative_bias = at::zeros({4, 9})},
                                          {.relative_bias = at::zeros({3, 9})},
                                          {.relative_bias = at::zeros({4, 8})},
                                          {.sinks = at::zeros({3})},
                                          {.documents = documents, .query_documents = documents},
                                          {.causal = false, .query_documents = documents}};
  for (const AttentionOptions& options : bad) {
    EXPECT_THROW(attention(c.query, c.key, c.value, options), InternalError);
  }
}

void expect_same_on_meta(const Inputs& inputs, AttentionOptions options) {
  register_meta_kernels();
  const auto meta = [](const at::Tensor& x) { return x.to(at::kMeta); };
  const Results real = ours(inputs, options);
  if (options.documents.defined()) options.documents = meta(options.documents);
  Inputs dry_inputs{meta(inputs.query), meta(inputs.key), meta(inputs.value),
                    meta(inputs.gradient)};
  if (inputs.sinks.defined()) dry_inputs.sinks = meta(inputs.sinks);
  if (inputs.bias.defined()) dry_inputs.bias = meta(inputs.bias);
  const Results dry = ours(dry_inputs, options);
  expect_same_shape(dry.output, real.output);
  for (size_t i = 0; i < real.gradients.size(); ++i) {
    expect_same_shape(dry.gradients[i], real.gradients[i]);
  }
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
    for (const AttentionKind& kind : attention_kinds()) {
      const Shape shape{3, 3, kind.kv_heads, 20, 120, 16, 8};
      Inputs inputs = kind.inputs(shape).to(type);
      expect_same_on_meta(inputs, kind.options(shape));
      if (kind.capped) continue;
      inputs.bias = at::zeros({3, 15}, type);
      expect_same_on_meta(inputs, kind.options(shape));
    }
  }
}

}  // namespace
}  // namespace colossal::ops
