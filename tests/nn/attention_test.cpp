// Attention layers with a cache: what is generated token by token is what the whole sequence gives.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "colossal/nn/dense_builder.h"
#include "colossal/nn/key_value_cache.h"

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
                     KeyValueCache& cache) {
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0, count = first; begin < kSequence; begin += count, count = size) {
    count = std::min(count, kSequence - begin);
    StepContext context = make_step_context(kBatch, count, at::kCPU, begin);
    context.cache = &cache;
    parts.push_back(layer.forward(x.narrow(1, begin, count), context));
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
      const at::Tensor whole = layer->forward(x, make_step_context(kBatch, kSequence, at::kCPU));
      for (const int64_t size : {1, 3}) {
        KeyValueCache cache(1, kSequence);
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
  KeyValueCache cache(1, kSequence), bad_cache(1, kSequence);
  const auto last = [](const at::Tensor& y) { return y.narrow(1, 27, 13); };
  EXPECT_TRUE(last(in_chunks(*layer, bad, 27, 1, bad_cache))
                  .equal(last(in_chunks(*layer, x, 27, 1, cache))));
}

}  // namespace
}  // namespace colossal::nn
