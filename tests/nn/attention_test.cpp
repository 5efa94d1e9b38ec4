// Attention layers with a cache: what is generated token by token is what the whole sequence gives.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "colossal/base/error.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/nn/memory_store.h"
#include "tests/support/contiguous_key_values.h"

namespace colossal::nn {
namespace {

constexpr int64_t kBatch = 2, kSequence = 40, kHeadSize = 8;
constexpr int64_t kFeatures = (6 + 2 * 2) * kHeadSize;

AttentionOptions options_of(int64_t window, double soft_cap, double alibi, bool sinks) {
  AttentionOptions options{.heads = 6,
                           .kv_heads = 2,
                           .head_size = kHeadSize,
                           .scale = 0.3,
                           .rotary = {.base = 100},
                           .window = window,
                           .soft_cap = soft_cap,
                           .alibi = alibi};
  if (sinks) options.sinks = Initializer::normal(1);
  return options;
}

at::Tensor activation(at::ScalarType type) {
  return at::arange(kBatch * kSequence * kFeatures, at::kDouble)
      .sin_()
      .view({kBatch, kSequence, kFeatures})
      .to(type);
}

std::unique_ptr<Attention> make_layer(DenseBuilder& builder, const AttentionOptions& options,
                                      at::ScalarType type) {
  auto layer = builder.attention("attention", options);
  for (const ParameterHandle& parameter : builder.parameters()) {
    EXPECT_EQ(parameter->name, "attention.sinks");
    EXPECT_EQ(parameter->local_shape(), std::vector<int64_t>{6});
    parameter->tensor = at::linspace(-1, 2, 6, at::kDouble).to(type);
  }
  EXPECT_EQ(builder.parameters().size(), options.sinks ? 1U : 0U);
  return layer;
}

// The same in chunks of so many positions, the last of what is left.
at::Tensor in_chunks(Attention& layer, const at::Tensor& x, int64_t first, int64_t size,
                     test::ContiguousKeyValues& cache) {
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0, count = first; begin < kSequence; begin += count, count = size) {
    count = std::min(count, kSequence - begin);
    StepContext context = make_step_context(kBatch, count, at::kCPU, begin);
    context.services.key_values = &cache;
    parts.push_back(layer.forward(x.narrow(1, begin, count), {}, context));
  }
  return at::cat(parts, 1);
}

TEST(CachedAttention, GivesWhatTheWholeSequenceGives) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    for (const AttentionOptions& options :
         {options_of(0, 0, 0, false), options_of(7, 0, 0, false), options_of(7, 1.5, 0, false),
          options_of(0, 0, 0.5, true), options_of(9, 1.5, 1, true)}) {
      SCOPED_TRACE(options.window);
      DenseBuilder builder;
      const auto layer = make_layer(builder, options, type);
      const at::Tensor x = activation(type);
      const at::Tensor whole =
          layer->forward(x, {}, make_step_context(kBatch, kSequence, at::kCPU));
      for (const int64_t size : {1, 3}) {
        test::ContiguousKeyValues cache(1, kSequence);
        const at::Tensor parts = in_chunks(*layer, x, 12, size, cache);
        EXPECT_LE((parts - whole).norm().item<double>(),
                  (type == at::kDouble ? 1e-13 : 1e-6) * whole.norm().item<double>());
      }
    }
  }
}

TEST(CachedAttention, AWindowHidesAllThatIsOlder) {
  DenseBuilder builder;
  const auto layer = make_layer(builder, options_of(7, 0, 0, false), at::kFloat);
  const at::Tensor x = activation(at::kFloat);
  at::Tensor bad = x.clone();
  bad.narrow(1, 0, 20).fill_(NAN);
  test::ContiguousKeyValues cache(1, kSequence), bad_cache(1, kSequence);
  const auto last = [](const at::Tensor& y) { return y.narrow(1, 27, 13); };
  EXPECT_TRUE(last(in_chunks(*layer, bad, 27, 1, bad_cache))
                  .equal(last(in_chunks(*layer, x, 27, 1, cache))));
}

// The second sample's memory is padded to the length of the first one's.
TEST(CrossAttention, SeesTheMemoryAndNotItsPadding) {
  constexpr int64_t kMemory = 23, kSeen = 9, kHeads = 6, kKeyHeads = 2;
  AttentionOptions options{.heads = kHeads,
                           .kv_heads = kKeyHeads,
                           .head_size = kHeadSize,
                           .scale = 0.3,
                           .causal = false,
                           .soft_cap = 2};
  options.sinks = Initializer::normal(1);
  DenseBuilder builder;
  const auto layer = builder.cross_attention("attention", options);
  const ParameterHandle sinks = builder.parameters().front();
  sinks->tensor = at::linspace(-1, 2, kHeads, at::kDouble);
  const auto numbers = [](at::IntArrayRef sizes) {
    return at::arange(c10::multiply_integers(sizes), at::kDouble).sin_().view(sizes);
  };
  const at::Tensor query = numbers({2, kSequence, kHeads * kHeadSize});
  at::Tensor memory = numbers({2, kMemory, 2 * kKeyHeads * kHeadSize});
  StepContext context = make_step_context(2, kSequence, at::kCPU);
  TokenGrid of_memory = make_token_grid(2, kMemory, at::kCPU);
  of_memory.documents = at::zeros({2, kMemory}, at::kLong);
  of_memory.documents[1].narrow(0, kSeen, kMemory - kSeen).fill_(1);
  context.grids = {of_memory, context.tokens()};
  context.stack = 1;
  const at::Tensor found = layer->forward(query, memory, context);

  const auto heads_of = [&](const at::Tensor& x, int64_t heads) {
    return x.unflatten(2, {heads, kHeadSize}).transpose(1, 2);
  };
  const at::Tensor parts = heads_of(memory, 2 * kKeyHeads).repeat_interleave(3, 1);
  at::Tensor scores =
      at::matmul(heads_of(query, kHeads), parts.narrow(1, 0, kHeads).transpose(2, 3));
  scores = (scores * (0.3 / 2)).tanh() * 2;
  scores[1].narrow(2, kSeen, kMemory - kSeen).fill_(-INFINITY);
  const at::Tensor of_sinks = sinks->tensor.view({1, kHeads, 1, 1}).expand({2, -1, kSequence, 1});
  const at::Tensor probabilities = at::cat({scores, of_sinks}, 3).softmax(-1).narrow(3, 0, kMemory);
  const at::Tensor expected =
      at::matmul(probabilities, parts.narrow(1, kHeads, kHeads)).transpose(1, 2).flatten(2);
  EXPECT_LE((found - expected).norm().item<double>(), 1e-13 * expected.norm().item<double>());
}

TEST(CrossAttention, RefusesWhatItDoesNotHave) {
  const AttentionOptions plain{.heads = 2, .kv_heads = 2, .head_size = 8, .causal = false};
  std::vector<AttentionOptions> bad(5, plain);
  bad[0].causal = true;
  bad[1].window = 3;
  bad[2].alibi = 1;
  bad[3].rotary.base = 100;
  bad[4].query_key_norm.kind = QueryKeyNormOptions::Kind::rms;
  for (const AttentionOptions& options : bad) {
    EXPECT_THROW(DenseBuilder().cross_attention("attention", options), InternalError);
  }
}

// Tokens of three sequences, each with its own source, are computed at once, and keys and values of
// a source only once.
TEST(CrossAttention, OfStoredSourcesIsThatOfEachAlone) {
  const AttentionOptions options{
      .layer = 4, .heads = 4, .kv_heads = 2, .head_size = 8, .causal = false};
  DenseBuilder builder;
  const auto layer = builder.cross_attention("attention", options);
  const auto numbers = [](int64_t positions, int64_t features, double shift) {
    return (at::arange(positions * features, at::kDouble) + shift)
        .sin_()
        .view({1, positions, features});
  };
  const int64_t lengths[] = {5, 9, 2};
  const int64_t counts[] = {1, 3, 2};
  for (const bool alone : {false, true}) {
    MemoryStore store(alone);
    std::vector<MemoryStore::Chunk> chunks;
    int projected = 0;
    for (int64_t source = 0; source < 3; ++source) {
      store.add(source, numbers(lengths[source], 32, static_cast<double>(source)),
                make_step_context(1, lengths[source], at::kCPU));
      chunks.push_back({source, counts[source]});
    }
    const auto key_value = [&](const at::Tensor& memory, const StepContext& context) {
      EXPECT_EQ(context.tokens().sequence, memory.size(1));
      ++projected;
      return memory * 2;
    };
    StepContext context = make_step_context(1, 6, at::kCPU);
    context.services.memories = &store;
    for (int step = 0; step < 2; ++step) {
      store.begin_step(chunks);
      store.project(4, key_value);
      EXPECT_EQ(projected, 3);
      const at::Tensor query = numbers(6, 32, 0.5 + step);
      const at::Tensor found = layer->forward_stored(query, context);
      int64_t row = 0;
      for (int64_t source = 0; source < 3; ++source) {
        const at::Tensor expected =
            layer->forward(query.narrow(1, row, counts[source]),
                           numbers(lengths[source], 32, static_cast<double>(source)) * 2,
                           make_step_context(1, counts[source], at::kCPU));
        EXPECT_LE((found.narrow(1, row, counts[source]) - expected).norm().item<double>(), 1e-13);
        row += counts[source];
      }
    }
    store.remove(1);
    EXPECT_THROW(store.key_value(4, 1), InternalError);
  }
}

}  // namespace
}  // namespace colossal::nn
