// Our own blocks, for every type and for bf16 with each kind of product, whatever attention() would
// choose.
#include "colossal/ops/attention/flash_attention.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "colossal/ops/flat_tensor.h"
#include "tests/ops/attention_kinds.h"

namespace colossal::ops {
namespace {

Results flash(const Inputs& in, const AttentionOptions& options, Bf16Product product) {
  const int64_t queries = in.query.size(2), keys = in.key.size(2);
  FlashAttention problem{
      .part = {in.query, in.key, in.value, {{keys - queries, keys}}, {{0, keys}}},
      .rule = AttentionRule(options, in.query.size(3)),
      .bf16_product = product};
  problem.part.sinks = in.sinks;
  if (options.documents.defined()) {
    problem.part.query_documents = options.documents.narrow(1, keys - queries, queries);
    problem.part.key_documents = options.documents;
  }
  auto sizes = in.query.sizes().vec();
  const at::Tensor logsumexp =
      at::empty({sizes[0], sizes[1], sizes[2]},
                in.query.options().dtype(compute_type(in.query.scalar_type())));
  sizes[3] = in.value.size(3);
  Results results{at::empty(sizes, in.query.options()),
                  {at::empty_like(in.query), at::empty_like(in.key), at::empty_like(in.value)}};
  flash_attention_forward(problem, {results.output, logsumexp});
  flash_attention_backward(problem, {results.output, logsumexp}, in.gradient,
                           {results.gradients[0], results.gradients[1], results.gradients[2]});
  if (in.sinks.defined()) {
    results.gradients.push_back(sink_gradient(in.sinks, {results.output, logsumexp}, in.gradient));
  }
  return results;
}

void expect_blocks_right(const Shape& shape, const AttentionOptions& options,
                         const Inputs& inputs) {
  const Results expected = reference(inputs, options, mask_of(shape, options));
  for (const at::ScalarType type : all_types()) {
    SCOPED_TRACE(c10::toString(type));
    expect_all_near(flash(inputs.to(type), options, nullptr), expected, tolerance_of(type));
  }
  SCOPED_TRACE("bf16 products");
  expect_all_near(flash(inputs.to(at::kBFloat16), options, scalar_product), expected,
                  tolerance_of(at::kBFloat16));
}

void expect_blocks_right(const Shape& shape, const AttentionOptions& options) {
  expect_blocks_right(shape, options, make_inputs(shape));
}

TEST(FlashAttention, EqualsTheFormulaWhereNothingDivides) {
  for (const AttentionOptions& options : {kCausal, kFull}) {
    SCOPED_TRACE(options.causal);
    expect_blocks_right({1, 1, 1, 1, 1, 32, 32}, options);
    expect_blocks_right({2, 2, 2, 17, 17, 33, 33}, options);
    expect_blocks_right({1, 2, 2, 131, 131, 72, 72}, options);
    expect_blocks_right({1, 2, 1, 301, 301, 64, 64}, options);
    expect_blocks_right({1, 1, 1, 64, 64, 256, 256}, options);
    expect_blocks_right({1, 1, 1, 140, 140, 65, 129}, options);
    expect_blocks_right({1, 2, 2, 5, 203, 40, 24}, options);
    expect_blocks_right({1, 1, 1, 150, 163, 8, 9}, options);
  }
  expect_blocks_right({1, 1, 1, 150, 23, 32, 32}, kFull);
}

TEST(FlashAttention, TakesAnyScale) {
  expect_blocks_right({1, 2, 2, 70, 70, 32, 32}, {.causal = true, .scale = -0.3});
  expect_blocks_right({1, 2, 2, 70, 70, 32, 32}, {.causal = true, .scale = 1});
}

TEST(FlashAttention, SumsTheGradientsOfTheQueriesOfAKeyHead) {
  expect_blocks_right({2, 6, 2, 150, 150, 40, 40}, kCausal);
  expect_blocks_right({1, 4, 1, 33, 90, 32, 48}, kFull);
}

TEST(FlashAttention, DropsTheNumbersThatTheRuleNames) {
  expect_blocks_right({3, 4, 2, 150, 150, 32, 32}, with_dropout(kCausal));
  expect_blocks_right({3, 2, 2, 10, 330, 32, 32}, with_dropout(kFull));
  AttentionOptions later = with_dropout(kCausal);
  later.head_begin = 5;
  expect_blocks_right({1, 2, 2, 33, 75, 33, 32}, later);
}

TEST(FlashAttention, KeepsDocumentsApart) {
  for (const Shape& shape : {Shape{3, 4, 2, 300, 300, 32, 32}, Shape{2, 1, 1, 50, 211, 32, 32}}) {
    for (AttentionOptions options : {kCausal, kFull, with_dropout(kCausal)}) {
      options.documents = make_documents(shape);
      expect_blocks_right(shape, options);
    }
  }
}

// Documents that are never together in a block: whole blocks are skipped, none that is seen.
TEST(FlashAttention, ADocumentAloneGivesTheSameBitsAsWithOthersBeforeIt) {
  const Inputs inputs = make_inputs({1, 2, 2, 512, 512, 32, 32}).to(at::kFloat);
  AttentionOptions packed = kCausal;
  packed.documents = at::arange(512, at::kLong).floor_divide(256).unsqueeze(0);
  const at::Tensor whole = flash(inputs, packed, nullptr).output;
  const auto half = [](const at::Tensor& x) { return x.narrow(2, 256, 256); };
  const Inputs second{half(inputs.query), half(inputs.key), half(inputs.value),
                      half(inputs.gradient)};
  EXPECT_TRUE(flash(second, kCausal, nullptr).output.equal(half(whole)));
}

TEST(FlashAttention, EveryKindEqualsTheFormula) {
  for (const AttentionKind& kind : attention_kinds()) {
    SCOPED_TRACE(kind.name());
    for (const Shape& shape :
         {Shape{3, 3, kind.kv_heads, 150, 150, 8, 8}, Shape{3, 3, kind.kv_heads, 33, 210, 9, 6}}) {
      expect_blocks_right(shape, kind.options(shape), kind.inputs(shape));
    }
  }
}

// Windows of all sizes around those of blocks: no key too many or too few.
TEST(FlashAttention, AWindowHasSoManyKeys) {
  const Shape shape{1, 1, 1, 301, 301, 8, 8};
  for (const int64_t window : {2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 193, 299, 300, 301}) {
    SCOPED_TRACE(window);
    for (AttentionOptions options : {kCausal, kFull}) {
      options.window = window;
      expect_blocks_right(shape, options);
    }
  }
  // One key: its value.
  AttentionOptions options = kCausal;
  options.window = 1;
  const Inputs inputs = make_inputs(shape);
  const Results found = flash(inputs, options, nullptr);
  expect_near(found.output, inputs.value, 1e-15);
  expect_near(found.gradients[2], inputs.gradient, 1e-15);
}

// Keys and values that are not numbers, a block and more before the window of the last queries.
TEST(FlashAttention, SkipsTheKeysBeforeTheWindow) {
  AttentionOptions options = kCausal;
  options.window = 100;
  const Inputs clean = make_inputs({1, 2, 2, 512, 512, 16, 16});
  for (const at::ScalarType type : all_types()) {
    for (const Bf16Product product : {Bf16Product{nullptr}, Bf16Product{scalar_product}}) {
      Inputs inputs = clean.to(type);
      const auto last = [](const at::Tensor& x) { return x.narrow(2, 384, 128); };
      const Results expected = flash(inputs, options, product);
      inputs.key = inputs.key.clone();
      inputs.value = inputs.value.clone();
      inputs.key.narrow(2, 0, 256).fill_(NAN);
      inputs.value.narrow(2, 0, 256).fill_(NAN);
      const Results found = flash(inputs, options, product);
      EXPECT_TRUE(last(found.output).equal(last(expected.output)));
      EXPECT_TRUE(last(found.gradients[0]).equal(last(expected.gradients[0])));
    }
  }
}

TEST(FlashAttention, AWindowOfAllKeysChangesNoBit) {
  for (const at::ScalarType type : all_types()) {
    const Inputs inputs = make_inputs({1, 2, 2, 200, 200, 16, 16}).to(type);
    AttentionOptions options = kCausal;
    const Results without = flash(inputs, options, scalar_product);
    options.window = 200;
    const Results with = flash(inputs, options, scalar_product);
    EXPECT_TRUE(with.output.equal(without.output));
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(with.gradients[i].equal(without.gradients[i]));
  }
}

TEST(FlashAttention, ReadsViewsOfOneJoinedTensor) {
  const Shape shape{2, 3, 3, 77, 77, 40, 40};
  const at::Tensor joined = normal({shape.batch, shape.sequence, 9 * 40}, at::kBFloat16, 5);
  const auto part = [&](int64_t index) {
    return joined.narrow(2, index * 120, 120).view({2, 77, 3, 40}).transpose(1, 2);
  };
  const Inputs views{part(0), part(1), part(2), make_inputs(shape).gradient.to(at::kBFloat16)};
  const Inputs dense{views.query.contiguous(), views.key.contiguous(), views.value.contiguous(),
                     views.gradient.contiguous()};
  for (const Bf16Product product : {Bf16Product{nullptr}, Bf16Product{scalar_product}}) {
    const Results a = flash(views, kCausal, product), b = flash(dense, kCausal, product);
    EXPECT_TRUE(a.output.equal(b.output));
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(a.gradients[i].equal(b.gradients[i]));
  }
}

TEST(FlashAttention, GivesTheSameBitsWithAnyNumberOfThreads) {
  const Shape shape{3, 3, 1, 140, 140, 32, 32};
  const AttentionKind everything{true, 45, true, true, true, true, true, true, 1};
  AttentionOptions plain = with_dropout(kCausal);
  plain.documents = make_documents(shape);
  const int before = at::get_num_threads();
  for (const at::ScalarType type : all_types()) {
    for (const AttentionOptions& options : {plain, everything.options(shape)}) {
      const Inputs inputs = everything.inputs(shape).to(type);
      at::set_num_threads(1);
      const Results one = flash(inputs, options, scalar_product);
      for (const int threads : {2, 5}) {
        at::set_num_threads(threads);
        const Results many = flash(inputs, options, scalar_product);
        EXPECT_TRUE(many.output.equal(one.output));
        for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(many.gradients[i].equal(one.gradients[i]));
      }
    }
  }
  at::set_num_threads(before);
}

// Scores that grow along the keys raise the running maximum again and again; ones that differ by
// hundreds leave nothing but the largest.
TEST(FlashAttention, StandsScoresOfAnySizeAndOrder) {
  for (const double spread : {0.5, 30.0}) {
    Inputs inputs = make_inputs({1, 2, 2, 200, 200, 32, 32});
    inputs.key = inputs.key * at::linspace(-spread, spread, 200, at::kDouble).view({1, 1, 200, 1});
    inputs.query = inputs.query.abs();
    const Results expected = reference(inputs, kCausal, at::ones({1}, at::kDouble));
    expect_all_near(flash(inputs, kCausal, nullptr), expected, 1e-12);
  }
}

TEST(FlashAttention, ANumberThatIsNotFiniteIsSeenInTheOutput) {
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    for (const Bf16Product product : {Bf16Product{nullptr}, Bf16Product{scalar_product}}) {
      const Inputs inputs = make_inputs({1, 1, 1, 70, 70, 32, 32}).to(at::kBFloat16);
      inputs.key[0][0][40][3] = bad;
      const at::Tensor output = flash(inputs, kCausal, product).output;
      EXPECT_TRUE(at::isfinite(output.narrow(2, 0, 40)).all().item<bool>());
      EXPECT_FALSE(at::isfinite(output.narrow(2, 40, 30)).all().item<bool>());
    }
  }
}

// In bf16, no more error than LibTorch's own.
TEST(FlashAttention, RoundsNoMoreThanLibTorch) {
  const Inputs inputs = make_inputs({2, 2, 2, 256, 256, 64, 64});
  const AttentionOptions options{.causal = true, .scale = 0.125};
  const Results exact = reference(inputs, options, at::ones({1}, at::kDouble));
  const Inputs half = inputs.to(at::kBFloat16);
  const Results theirs = differentiate(half, [](const Inputs& x) {
    return at::scaled_dot_product_attention(x.query, x.key, x.value, {}, 0.0, true);
  });
  for (const Bf16Product product : {Bf16Product{nullptr}, Bf16Product{scalar_product}}) {
    const Results ours = flash(half, options, product);
    EXPECT_LE(distance(ours.output, exact.output), 1.05 * distance(theirs.output, exact.output));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_LE(distance(ours.gradients[i], exact.gradients[i]),
                1.05 * distance(theirs.gradients[i], exact.gradients[i]))
          << i;
    }
  }
}

}  // namespace
}  // namespace colossal::ops
