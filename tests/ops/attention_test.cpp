#include "colossal/ops/attention.h"

#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>

#include "colossal/base/error.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

struct Shape {
  int64_t batch, heads, kv_heads, sequence, keys, head_size, value_size;
};

struct Inputs {
  at::Tensor query, key, value, gradient;

  Inputs to(at::ScalarType type) const {
    return {query.to(type), key.to(type), value.to(type), gradient.to(type)};
  }
};

// Rounded to bf16, so that every type starts from the same numbers. Views whose heads lie side by
// side in memory, as the projections give them.
Inputs make_inputs(const Shape& s) {
  const auto make = [](at::IntArrayRef sizes, uint64_t seed) {
    return normal(sizes, at::kBFloat16, seed).to(at::kDouble).transpose(1, 2);
  };
  return {make({s.batch, s.sequence, s.heads, s.head_size}, 1),
          make({s.batch, s.keys, s.kv_heads, s.head_size}, 2),
          make({s.batch, s.keys, s.kv_heads, s.value_size}, 3),
          make({s.batch, s.sequence, s.heads, s.value_size}, 4)};
}

// The mask that options describe, [batch, heads, sequence, keys]: factors 0 or 1 / (1 - p). Drawn
// number by number.
at::Tensor mask_of(const Shape& s, const AttentionOptions& options) {
  at::Tensor mask = at::ones({s.batch, s.heads, s.sequence, s.keys}, at::kDouble);
  if (options.dropout == 0) return mask;
  auto factors = mask.accessor<double, 4>();
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const RandomKey key = random_subkey(options.random_key, options.head_begin + h);
      for (int64_t q = 0; q < s.sequence; ++q) {
        const RandomRow row = random_row(key, options.sample_ids[b], s.keys - s.sequence + q);
        for (int64_t k = 0; k < s.keys; ++k) {
          uint32_t words[kRandomGroup];
          random_words(row, k / kRandomGroup, words);
          const bool dropped = words[k % kRandomGroup] < options.dropout * 0x1p32;
          factors[b][h][q][k] = dropped ? 0 : 1 / (1 - options.dropout);
        }
      }
    }
  }
  return mask;
}

struct Results {
  at::Tensor output;
  std::vector<at::Tensor> gradients;
};

Results differentiate(const Inputs& in, const std::function<at::Tensor(const Inputs&)>& function) {
  const Inputs leaves{in.query.detach().requires_grad_(), in.key.detach().requires_grad_(),
                      in.value.detach().requires_grad_(), in.gradient};
  const at::Tensor output = function(leaves);
  return {output.detach(),
          torch::autograd::grad({output}, {leaves.query, leaves.key, leaves.value}, {in.gradient})};
}

Results ours(const Inputs& in, const AttentionOptions& options) {
  return differentiate(
      in, [&](const Inputs& x) { return attention(x.query, x.key, x.value, options); });
}

// Written out, in the inputs' type.
Results reference(const Inputs& in, const AttentionOptions& options, const at::Tensor& mask) {
  return differentiate(in, [&](const Inputs& x) {
    const int64_t group = x.query.size(1) / x.key.size(1);
    const int64_t sequence = x.query.size(2), keys = x.key.size(2);
    const at::Tensor key = x.key.repeat_interleave(group, 1);
    const at::Tensor value = x.value.repeat_interleave(group, 1);
    at::Tensor scores = at::matmul(x.query, key.transpose(2, 3)) * options.scale;
    if (options.causal) {
      const at::Tensor seen = at::ones({sequence, keys}, at::kBool).tril(keys - sequence);
      scores = scores.masked_fill(seen.logical_not(), -INFINITY);
    }
    return at::matmul(scores.softmax(-1) * mask.to(x.query.scalar_type()), value);
  });
}

void expect_all_near(const Results& a, const Results& b, double tolerance) {
  expect_near(a.output, b.output, tolerance);
  for (size_t i = 0; i < 3; ++i) expect_near(a.gradients[i], b.gradients[i], tolerance);
}

void expect_right(const Shape& shape, const AttentionOptions& options) {
  const Inputs inputs = make_inputs(shape);
  const Results expected = reference(inputs, options, mask_of(shape, options));
  for (const at::ScalarType type : all_types()) {
    SCOPED_TRACE(c10::toString(type));
    expect_all_near(ours(inputs.to(type), options), expected, tolerance_of(type));
  }
}

const std::vector<int64_t> kSamples = {3, 1'000'000, 7};

AttentionOptions with_dropout(AttentionOptions options) {
  options.dropout = 0.2;
  options.random_key = random_key(1, 2, "blocks.3.attention");
  options.sample_ids = kSamples;
  return options;
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
}

TEST(Attention, RunsOnMetaWithTheShapesOfTheRealOne) {
  for (const at::ScalarType type : all_types()) {
    for (const double probability : {0.0, 0.2}) {
      for (const Shape& shape : {Shape{3, 4, 2, 33, 33, 16, 16}, Shape{3, 4, 2, 5, 33, 16, 8}}) {
        AttentionOptions options = with_dropout({});
        options.dropout = probability;
        const Inputs inputs = make_inputs(shape).to(type);
        const Results real = ours(inputs, options);
        const auto meta = [](const at::Tensor& x) { return x.to(at::kMeta); };
        const Results dry =
            ours({meta(inputs.query), meta(inputs.key), meta(inputs.value), meta(inputs.gradient)},
                 options);
        expect_same_shape(dry.output, real.output);
        for (size_t i = 0; i < 3; ++i) expect_same_shape(dry.gradients[i], real.gradients[i]);
      }
    }
  }
}

}  // namespace
}  // namespace colossal::ops
