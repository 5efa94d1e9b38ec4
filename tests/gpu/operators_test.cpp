// Each operator that has a kernel of its own on GPUs, ours or LibTorch's, computes there what it
// computes on the CPU, forward and backward.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "colossal/ops/activation.h"
#include "colossal/ops/attention/attention.h"
#include "colossal/ops/attention/paged_attention.h"
#include "colossal/ops/attention/rotary.h"
#include "colossal/ops/dropout.h"
#include "colossal/ops/loss/linear_cross_entropy.h"
#include "colossal/ops/norm/norm.h"
#include "colossal/ops/optimizer_kernels.h"
#include "colossal/ops/product/grouped_product.h"
#include "colossal/ops/product/product.h"
#include "colossal/ops/product/quantized_product.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

const at::Device kGpu(at::kCUDA, 0);

at::Tensor on_gpu(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.to(kGpu) : tensor;
}
Tensors each(const Tensors& tensors, const std::function<at::Tensor(const at::Tensor&)>& change) {
  Tensors changed;
  for (const at::Tensor& tensor : tensors) changed.push_back(change(tensor));
  return changed;
}

// Returns the results of `run` and the gradients of the floating-point inputs.
Tensors results_and_gradients(Tensors inputs, const std::function<Tensors(const Tensors&)>& run) {
  for (at::Tensor& input : inputs) {
    input = input.detach().clone();
    if (input.is_floating_point()) input.set_requires_grad(true);
  }
  Tensors results = run(inputs);
  at::Tensor sum = at::zeros({}, results.front().options().dtype(at::kDouble));
  for (size_t i = 0; i < results.size(); ++i) {
    const at::Tensor factors = normal(results[i].sizes(), at::kDouble, 90 + i).to(sum.device());
    sum = sum + (results[i].to(at::kDouble) * factors).sum();
  }
  sum.backward();
  for (const at::Tensor& input : inputs) {
    if (input.is_floating_point()) results.push_back(input.grad());
  }
  return each(results, [](const at::Tensor& result) { return result.detach().cpu(); });
}

// Compares in each type with the CPU in fp64; the inputs have bf16 values, the same for each.
void expect_as_on_the_cpu(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& run,
                          double factor = 1) {
  const auto in = [&](at::ScalarType type) {
    return each(inputs, [&](const at::Tensor& input) {
      return input.is_floating_point() ? input.to(at::kBFloat16).to(type) : input;
    });
  };
  const Tensors expected = results_and_gradients(in(at::kDouble), run);
  for (const at::ScalarType type : all_types()) {
    SCOPED_TRACE(c10::toString(type));
    const Tensors found = results_and_gradients(each(in(type), on_gpu), run);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "result " << i);
      expect_near(found[i], expected[i], factor * tolerance_of(type));
    }
  }
}

at::Tensor numbers(at::IntArrayRef sizes, uint64_t seed) {
  return normal(sizes, at::kDouble, seed);
}

TEST(OperatorsOnGpu, GatedActivations) {
  for (const Activation activation :
       {Activation::silu, Activation::gelu_tanh, Activation::gelu, Activation::relu_squared}) {
    for (const int64_t features : {1, 33, 64}) {
      expect_as_on_the_cpu({numbers({7, 3, 2 * features}, 1)}, [&](const Tensors& x) {
        return Tensors{activate_gate(x[0], activation)};
      });
    }
  }
}

TEST(OperatorsOnGpu, Norms) {
  const Tensors inputs{numbers({5, 70}, 1), numbers({5, 70}, 2), numbers({70}, 3),
                       numbers({70}, 4)};
  for (const bool unit_offset : {false, true}) {
    expect_as_on_the_cpu(inputs, [&](const Tensors& x) {
      const auto [sum, normed] = add_rms_norm(x[0], x[1], x[2], 1e-5, unit_offset);
      return Tensors{sum, normed, rms_norm(x[0], x[3], 1e-6, unit_offset)};
    });
    expect_as_on_the_cpu(inputs, [&](const Tensors& x) {
      const auto [sum, normed] = add_layer_norm(x[0], x[1], x[2], x[3], 1e-5, unit_offset);
      return Tensors{sum, normed, layer_norm(x[1], x[2], {}, 1e-6, unit_offset)};
    });
  }
}

TEST(OperatorsOnGpu, RotaryEmbedding) {
  const at::Tensor positions = at::tensor({5, 0, 1000, 7, 31, 2, 4, 3}, at::kLong);
  for (const bool interleaved : {false, true}) {
    for (const auto& [base, channels, heads] :
         {std::tuple{10000.0, 0, 5}, {500000.0, 12, 3}, {100.0, 16, 0}}) {
      const RotaryOptions options{.base = base, .channels = channels, .interleaved = interleaved};
      const at::Tensor frequencies = rotary_frequencies(options, 20);
      for (const at::Tensor& places : {positions.narrow(0, 0, 4), positions.view({2, 4})}) {
        expect_as_on_the_cpu({numbers({2, 4, 5, 20}, 1), places}, [&](const Tensors& x) {
          return Tensors{rotary(x[0], x[1], frequencies.to(x[0].device()), heads,
                                {.interleaved = interleaved, .factor = 1.25})};
        });
      }
    }
  }
}

TEST(OperatorsOnGpu, DropoutDropsTheSameElements) {
  const RandomKey key = random_key(3, 1, "layer");
  for (const at::ScalarType type : all_types()) {
    const at::Tensor x = normal({3, 5, 2, 19}, type, 1);
    for (const at::Tensor& positions :
         {at::arange(5, at::kLong), at::arange(15, at::kLong).view({3, 5})}) {
      const auto run = [&](const Tensors& inputs) {
        return Tensors{dropout(inputs[0], 0.3, key, kSamples, positions.to(inputs[0].device()), 7)};
      };
      const Tensors expected = results_and_gradients({x}, run),
                    found = results_and_gradients({on_gpu(x)}, run);
      for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i]));
    }
  }
}

TEST(OperatorsOnGpu, CrossEntropy) {
  const at::Tensor labels = at::tensor({3, 0, 96, -100, 50, 7, -100}, at::kLong);
  for (const double soft_cap : {0.0, 5.0}) {
    for (const int64_t logits_bytes : {int64_t{64} << 20, int64_t{2048}}) {
      expect_as_on_the_cpu(
          {numbers({7, 24}, 1), numbers({97, 24}, 2), numbers({97}, 3), labels},
          [&](const Tensors& x) {
            const LogitOptions options{.bias = x[2], .scale = 0.7, .soft_cap = soft_cap};
            return Tensors{linear_cross_entropy(x[0], x[1], x[3], options, logits_bytes)};
          });
    }
  }
}

TEST(OperatorsOnGpu, Attention) {
  constexpr int64_t kHeads = 4;
  const Tensors inputs{numbers({2, kHeads, 37, 24}, 1), numbers({2, 2, 37, 24}, 2),
                       numbers({2, 2, 37, 24}, 3), numbers({kHeads}, 4)};
  const std::vector<double> slopes = alibi_slopes(kHeads);
  const auto check = [&](const AttentionOptions& options, bool sinks = false) {
    expect_as_on_the_cpu(
        inputs,
        [&](const Tensors& x) {
          AttentionOptions given = options;
          if (sinks) given.sinks = x[3];
          const at::Tensor seen = attention(x[0], x[1], x[2], given);
          return Tensors{seen, x[3].sum()};  // each input has a gradient
        },
        /*factor=*/2);
  };
  check({});
  check({.causal = false});
  check({.window = 9});
  check({.scale = 0.3}, /*sinks=*/true);
  check({.soft_cap = 2});
  check({.alibi_slopes = slopes});
}

TEST(OperatorsOnGpu, AttentionToPages) {
  constexpr int64_t kHeads = 6, kSize = 20, kValueSize = 36, kPage = 16, kPages = 12;
  const at::Tensor tables = at::tensor({7, 0, 0, 0, 0, 3, 9, 0, 0, 0, 3, 5, 11, 2, 8}, at::kLong);
  const std::vector<int64_t> positions{0, 36, 20, 79, 40};
  const std::vector<double> slopes = alibi_slopes(kHeads);
  const PagedTokens tokens{tables.view({3, 5}), at::tensor({0, 1, 1, 2, 2}, at::kLong),
                           at::tensor(positions, at::kLong), 80};
  const PagedTokens tokens_on_gpu{on_gpu(tokens.tables), on_gpu(tokens.sequences),
                                  on_gpu(tokens.positions), tokens.longest};
  for (const at::ScalarType type : all_types()) {
    for (const int64_t kv_heads : {6, 2}) {
      for (const bool int8 : {false, true}) {
        SCOPED_TRACE(testing::Message() << c10::toString(type) << " " << kv_heads << " " << int8);
        KeyValuePages pages{normal({kPages, kv_heads, kSize, kPage}, type, 1),
                            normal({kPages, kv_heads, kPage, kValueSize}, type, 2)};
        if (int8) {
          const ScaledRows keys = ScaledRows::of(pages.keys.transpose(2, 3)),
                           values = ScaledRows::of(pages.values);
          pages = {keys.codes.transpose(2, 3).contiguous(), values.codes, keys.scales,
                   values.scales};
        }
        const KeyValuePages pages_on_gpu{on_gpu(pages.keys), on_gpu(pages.values),
                                         on_gpu(pages.key_scales), on_gpu(pages.value_scales)};
        const at::Tensor query = normal({5, kHeads, kSize}, type, 3);
        for (const AttentionOptions& options : {AttentionOptions{},
                                                {.window = 33, .scale = 0.4},
                                                {.soft_cap = 1.5, .alibi_slopes = slopes}}) {
          const AttentionResult expected = paged_attention(query, pages, tokens, options);
          const AttentionResult found =
              paged_attention(on_gpu(query), pages_on_gpu, tokens_on_gpu, options);
          // Codes are multiplied by their scales in fp32.
          const double least = int8 ? 1e-6 : 0;
          expect_near(found.output.cpu(), expected.output, std::max(least, tolerance_of(type)));
          expect_near(found.logsumexp.cpu(), expected.logsumexp,
                      std::max(least, type == at::kDouble ? 1e-13 : 1e-5));
        }
      }
    }
  }
}

TEST(OperatorsOnGpu, QuantizedProducts) {
  using Type = Quantization::Type;
  for (const Quantization& how :
       std::vector<Quantization>{{.type = Type::int8},
                                 {.type = Type::int4, .group = 32},
                                 {.type = Type::int4, .group = 64, .zero_point = true},
                                 {.type = Type::fp8},
                                 {.type = Type::int8, .group = 96}}) {
    const auto weight =
        std::make_shared<QuantizedMatrix>(quantize(normal({70, 96}, at::kFloat, 1), how));
    const auto weight_on_gpu = std::make_shared<QuantizedMatrix>(to_device(*weight, kGpu));
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const int64_t rows : {1, 5, 16, 17, 40}) {  // of few rows our kernels multiply
        SCOPED_TRACE(testing::Message() << c10::toString(type) << " " << static_cast<int>(how.type)
                                        << " " << how.group << " " << rows);
        const at::Tensor x = normal({rows, 96}, type, 2), bias = normal({70}, type, 3);
        const Tensors expected = results_and_gradients({x}, [&](const Tensors& inputs) {
          return Tensors{quantized_linear(inputs[0], {{weight}, {bias}})};
        });
        const Tensors found = results_and_gradients({on_gpu(x)}, [&](const Tensors& inputs) {
          return Tensors{quantized_linear(inputs[0], {{weight_on_gpu}, {on_gpu(bias)}})};
        });
        for (size_t i = 0; i < found.size(); ++i) {
          expect_near(found[i], expected[i], tolerance_of(type));
        }
      }
    }
  }
}

TEST(OperatorsOnGpu, GroupedProducts) {
  expect_as_on_the_cpu({numbers({11, 24}, 1), numbers({4, 15, 24}, 2), numbers({4, 8, 24}, 3)},
                       [](const Tensors& x) {
                         return Tensors{grouped_product(x[0], {3, 0, 7, 1}, {x[1], x[2]})};
                       });
}

TEST(OperatorsOnGpu, SumsOfProducts) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor a = normal({31, 20}, type, 1), b = normal({20, 45}, type, 2);
    for (const at::ScalarType of_sum : {type, type == at::kDouble ? type : at::kFloat}) {
      const at::Tensor sum = normal({31, 45}, of_sum, 3), found = on_gpu(sum);
      const at::Tensor expected = sum.to(at::kDouble) + a.to(at::kDouble).matmul(b.to(at::kDouble));
      add_matrix_product(found, on_gpu(a), on_gpu(b));
      expect_near(found.cpu(), expected, tolerance_of(type));
    }
  }
}

TEST(OperatorsOnGpu, AdamW) {
  constexpr int64_t kCount = 1003;
  for (const auto& [master, moments, gradient] : {std::tuple{at::kDouble, at::kDouble, at::kDouble},
                                                  {at::kFloat, at::kFloat, at::kFloat},
                                                  {at::kFloat, at::kFloat, at::kBFloat16}}) {
    Tensors on_cpu{normal({kCount}, master, 1), at::zeros({kCount}, at::kBFloat16),
                   at::zeros({kCount}, moments), at::zeros({kCount}, moments)};
    const Tensors there = each(on_cpu, on_gpu);
    for (int64_t update = 1; update <= 3; ++update) {
      const at::Tensor g = normal({kCount}, gradient, 10 + static_cast<uint64_t>(update));
      const AdamWScalars scalars{
          .learning_rate = 0.01, .weight_decay = 0.1, .gradient_scale = 0.5, .update = update};
      adamw(on_cpu[0], on_cpu[1], on_cpu[2], on_cpu[3], g, scalars);
      adamw(there[0], there[1], there[2], there[3], on_gpu(g), scalars);
    }
    for (size_t i = 0; i < on_cpu.size(); ++i) {
      expect_near(there[i].cpu(), on_cpu[i], tolerance_of(on_cpu[i].scalar_type()));
    }
  }
}

TEST(OperatorsOnGpu, FlatBuffers) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor x = normal({1003}, type, 1);
    for (const at::ScalarType to : all_types()) {
      const at::Tensor sum = normal({1003}, to, 2), sum_there = on_gpu(sum);
      accumulate(sum, x);
      accumulate(sum_there, on_gpu(x));
      expect_near(sum_there.cpu(), sum, tolerance_of(to));
      convert_copy(sum, x, 0.3);
      convert_copy(sum_there, on_gpu(x), 0.3);
      expect_near(sum_there.cpu(), sum, tolerance_of(to));
    }
    expect_near(squared_norm(on_gpu(x)).cpu(), squared_norm(x), type == at::kDouble ? 1e-13 : 1e-6);
    const at::Tensor there = on_gpu(x);
    EXPECT_TRUE(all_finite(there));
    there[1002].fill_(NAN);
    EXPECT_FALSE(all_finite(there));
  }
}

}  // namespace
}  // namespace colossal::ops
