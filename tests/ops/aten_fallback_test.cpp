// The operators for devices without kernels of ours, on the CPU, against the CPU's own.
#include "colossal/ops/fallback/aten_fallback.h"

#include <gtest/gtest.h>

#include "colossal/ops/attention/attention.h"
#include "colossal/ops/attention/block_softmax.h"
#include "colossal/ops/attention/rotary.h"
#include "colossal/ops/dropout.h"
#include "colossal/ops/fallback/aten_fallback_quantized.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/loss/linear_cross_entropy.h"
#include "colossal/ops/optimizer_kernels.h"
#include "tests/ops/attention_kinds.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace {

const RandomKey kKey = random_key(1, 2, "stream");

TEST(AnyDevice, RandomNumbersAreTheSameBits) {
  for (const at::ScalarType type : all_types()) {
    const at::Tensor ours = at::empty({1'000}, type), theirs = at::empty({1'000}, type);
    fill_normal(ours, 5, kKey, 0.5, 2);
    aten_fallback::fill_normal(theirs, 5, pack_key(kKey), 0.5, 2);
    EXPECT_TRUE(theirs.equal(ours));
    const at::Tensor x = normal({3, 7, 20}, type, 1), positions = at::arange(7, at::kLong);
    EXPECT_TRUE(aten_fallback::dropout(x, 0.3, pack_key(kKey), kSamples, positions, 9)
                    .equal(dropout(x, 0.3, kKey, kSamples, positions, 9)));
  }
}

TEST(AnyDevice, OptimizerPassesAgree) {
  constexpr int64_t kCount = 1'000;
  const at::Tensor gradient = normal({kCount}, at::kBFloat16, 1);
  std::vector<at::Tensor> ours, theirs;
  for (auto* tensors : {&ours, &theirs}) {
    *tensors = {normal({kCount}, at::kFloat, 2), at::empty({kCount}, at::kBFloat16),
                normal({kCount}, at::kFloat, 3), normal({kCount}, at::kFloat, 4).abs()};
  }
  adamw(ours[0], ours[1], ours[2], ours[3], gradient,
        {.learning_rate = 0.1,
         .beta1 = 0.9,
         .beta2 = 0.95,
         .weight_decay = 0.1,
         .gradient_scale = 2});
  aten_fallback::adamw(theirs[0], theirs[1], theirs[2], theirs[3], gradient, 2, 0.9, 0.95, 1 - 0.01,
                       0.1 / (1 - 0.9), std::sqrt(1 - 0.95), 1e-8);
  for (size_t i = 0; i < ours.size(); ++i) expect_near(theirs[i], ours[i], i == 1 ? 1e-3 : 1e-6);
  accumulate(ours[0], gradient);
  aten_fallback::accumulate(theirs[0], gradient);
  expect_near(theirs[0], ours[0], 1e-6);
  convert_copy(ours[1], ours[0], 0.3);
  aten_fallback::convert_copy(theirs[1], ours[0], 0.3);
  EXPECT_TRUE(theirs[1].equal(ours[1]));
  EXPECT_NEAR(aten_fallback::squared_norm(ours[0]).item<double>(),
              squared_norm(ours[0]).item<double>(), 1e-9);
  EXPECT_TRUE(aten_fallback::all_finite(ours[0]));
  ours[0][7] = NAN;
  EXPECT_FALSE(aten_fallback::all_finite(ours[0]));
}

TEST(AnyDevice, RotaryAgrees) {
  static const auto op = find_operator<decltype(aten_fallback::rotary)>("colossal::rotary");
  const at::Tensor of_columns = at::arange(5), of_rows = at::stack({of_columns, of_columns + 7});
  for (const at::ScalarType type : all_types()) {
    const at::Tensor x = normal({2, 5, 4, 6}, type, 1);
    for (const int64_t channels : {6, 4}) {
      const at::Tensor frequencies = rotary_frequencies({.base = 100}, channels);
      for (const at::Tensor& positions : {of_columns, of_rows}) {
        for (const bool interleaved : {false, true}) {
          for (const bool backward : {false, true}) {
            expect_near(
                aten_fallback::rotary(x, positions, frequencies, 3, interleaved, 1.3, backward),
                op.call(x, positions, frequencies, 3, interleaved, 1.3, backward),
                tolerance_of(type));
          }
        }
      }
    }
  }
}

void expect_attention_agrees(const AttentionKind& kind, at::ScalarType type) {
  const Shape shape{3, 3, kind.kv_heads, 40, 120, 16, 8};
  const Inputs in = kind.inputs(shape).to(type);
  const auto [integers, numbers] = AttentionRule(kind.options(shape), 16).packed();
  const std::optional<at::Tensor> sinks =
      kind.sinks ? std::optional(in.sinks) : std::optional<at::Tensor>();
  static const auto forward =
      find_operator<decltype(aten_fallback::attention)>("colossal::attention");
  static const auto backward =
      find_operator<decltype(aten_fallback::attention_backward)>("colossal::attention_backward");
  const auto [output, logsumexp] =
      forward.call(in.query, in.key, in.value, sinks, integers, numbers);
  const auto [other_output, other_logsumexp] =
      aten_fallback::attention(in.query, in.key, in.value, sinks, integers, numbers);
  expect_near(other_output, output, tolerance_of(type));
  expect_near(other_logsumexp, logsumexp, 2e-6);
  EXPECT_EQ(other_output.strides(), output.strides());
  const auto [a, b, c] = backward.call(in.gradient, in.query, in.key, in.value, output, logsumexp,
                                       kind.sinks, integers, numbers);
  const auto [d, e, f] = aten_fallback::attention_backward(
      in.gradient, in.query, in.key, in.value, output, logsumexp, kind.sinks, integers, numbers);
  expect_near(d, a, tolerance_of(type));
  expect_near(e, b, tolerance_of(type));
  expect_near(f, c, tolerance_of(type));
}

TEST(AnyDevice, AttentionAgrees) {
  for (const at::ScalarType type : all_types()) {
    for (const AttentionKind& kind : attention_kinds()) {
      SCOPED_TRACE(kind.name());
      expect_attention_agrees(kind, type);
    }
  }
}

// Two parts of the keys, of which the second begins before and after the queries.
void expect_attention_by_parts_agrees(const AttentionKind& kind, at::ScalarType type) {
  static const auto forward =
      find_operator<decltype(aten_fallback::attention_part)>("colossal::attention_part");
  static const auto backward = find_operator<decltype(aten_fallback::attention_part_backward)>(
      "colossal::attention_part_backward");
  const std::vector<int64_t> queries{70, 75}, positions[] = {{0, 20, 60, 73}, {20, 60, 74, 80}};
  const auto documents = [&](int64_t size, int64_t border) -> std::optional<at::Tensor> {
    if (!kind.documents) return {};
    return at::arange(size, at::kLong).ge(border).to(at::kLong).expand({3, size});
  };
  const at::ScalarType sum_type = compute_type(type);
  const Shape shape{3, 3, kind.kv_heads, 5, 46, 16, 16};
  const Inputs in = kind.inputs(shape).to(type);
  const AttentionRule::Packed rule = AttentionRule(kind.options(shape), 16).packed();
  const std::optional<at::Tensor> sinks =
      kind.sinks ? std::optional(in.sinks) : std::optional<at::Tensor>();
  std::optional<at::Tensor> bias;
  if (!kind.capped) bias = normal({3, 2 * 20 + 1}, type, 12);
  std::vector<at::Tensor> ours, theirs;
  for (const bool on_cpu : {true, false}) {
    std::vector<at::Tensor>& results = on_cpu ? ours : theirs;
    results = {at::empty({3, 3, 5, 16}, sum_type), at::empty({3, 3, 5}, sum_type),
               at::empty({3, 3, 5, 16}, sum_type)};
    for (const bool second : {false, true}) {
      const auto rows = [&](const at::Tensor& x) { return x.narrow(2, 0, second ? 46 : 33); };
      const auto run = [&](const auto& op) {
        op(in.query, rows(in.key), rows(in.value), documents(5, 3), documents(second ? 46 : 33, 10),
           sinks, queries, positions[second], rule.integers, rule.numbers, second, results[0],
           results[1], bias);
      };
      if (on_cpu) {
        run([](auto&&... a) { forward.call(a...); });
      } else {
        run(aten_fallback::attention_part);
      }
    }
    for (const bool second : {false, true}) {
      const auto rows = [&](const at::Tensor& x) { return x.narrow(2, 0, second ? 46 : 33); };
      const at::Tensor key_gradient = at::empty(rows(in.key).sizes(), sum_type);
      const at::Tensor value_gradient = at::empty(rows(in.value).sizes(), sum_type);
      std::optional<at::Tensor> bias_gradient;
      if (bias) bias_gradient = at::ones(bias->sizes(), sum_type);
      const auto run = [&](const auto& op) {
        op(in.gradient, in.query, rows(in.key), rows(in.value), results[0], results[1],
           documents(5, 3), documents(second ? 46 : 33, 10), queries, positions[second],
           rule.integers, rule.numbers, second, results[2], key_gradient, value_gradient, bias,
           bias_gradient);
      };
      if (on_cpu) {
        run([](auto&&... a) { backward.call(a...); });
      } else {
        run(aten_fallback::attention_part_backward);
      }
      results.push_back(key_gradient);
      results.push_back(value_gradient);
      if (bias) results.push_back(*bias_gradient);
    }
  }
  for (size_t i = 0; i < ours.size(); ++i) {
    SCOPED_TRACE(i);
    // -infinity where a query saw nothing.
    const auto finite = [](const at::Tensor& x) { return x.masked_fill(x.isinf(), -1000); };
    expect_near(finite(theirs[i]), finite(ours[i]), tolerance_of(type));
  }
}

TEST(AnyDevice, AttentionByPartsAgrees) {
  for (const at::ScalarType type : all_types()) {
    for (const AttentionKind& kind : attention_kinds()) {
      SCOPED_TRACE(kind.name());
      expect_attention_by_parts_agrees(kind, type);
    }
  }
}

// Through the dispatcher, as tensors on a GPU would come. With labels outside the rows of the
// logits.
TEST(AnyDevice, CrossEntropyOfBlocksAgrees) {
  using Statistics = at::Tensor(const at::Tensor&, const at::Tensor&);
  using Gradient =
      void(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, double);
  const auto statistics_op = find_operator<Statistics>("colossal::softmax_statistics");
  const auto gradient_op = find_operator<Gradient>("colossal::cross_entropy_gradient_");
  const c10::DispatchKeySet other(c10::DispatchKey::XLA);  // a device without kernels of ours
  const at::Tensor labels = at::tensor(std::vector<int64_t>{3, -1, 0, 29, 30, 7, -5, 1});
  const at::Tensor ignored = labels.eq(-1);
  for (const at::ScalarType type : all_types()) {
    for (const double soft_cap : {0.0, 2.0}) {
      const at::Tensor ours = normal({8, 30}, type, 1).mul_(3);
      cap_logits(ours, soft_cap);
      const at::Tensor theirs = ours.clone();
      const at::Tensor statistics = softmax_statistics(ours, labels);
      const at::Tensor there = statistics_op.redispatch(other, theirs, labels);
      EXPECT_EQ(there.scalar_type(), statistics.scalar_type());
      expect_near(there, statistics, tolerance_of(type));
      cross_entropy_gradient(ours, labels, ignored, statistics, soft_cap);
      gradient_op.redispatch(other, theirs, labels, ignored, statistics, soft_cap);
      expect_near(theirs, ours, tolerance_of(type));
      EXPECT_TRUE(theirs[1].eq(0).all().item<bool>());
    }
  }
}

// The losses from statistics, as GPUs compute them, are those of the CPU's one pass.
TEST(AnyDevice, LossesOfStatisticsAreThoseOfRows) {
  const at::Tensor labels = at::tensor(std::vector<int64_t>{3, kIgnoredLabel, 0, 29});
  const at::Tensor ignored = labels.eq(kIgnoredLabel);
  for (const at::ScalarType type : all_types()) {
    const at::Tensor logits = normal({4, 30}, type, 1), copy = logits.clone();
    const at::Tensor statistics = softmax_statistics(logits, labels);
    const at::Tensor loss = losses_of(statistics).masked_fill_(ignored, 0).sum(at::kDouble);
    expect_near(cross_entropy_of_rows(copy, labels, 0, true), loss, 1e-6);
    cross_entropy_gradient(logits, labels, ignored, statistics, 0);
    expect_near(logits, copy, tolerance_of(type));
  }
}

TEST(AnyDevice, DequantizedWeightsAreTheSameBits) {
  using Type = Quantization::Type;
  for (const Quantization& how :
       {Quantization{.type = Type::int8, .group = 0}, Quantization{.type = Type::int8, .group = 32},
        Quantization{.type = Type::int4, .group = 64, .zero_point = true},
        Quantization{.type = Type::int4, .group = 32}, Quantization{.type = Type::fp8, .group = 0},
        Quantization{.type = Type::fp8, .group = 64}}) {
    for (const int64_t inputs : {96, 100, 7}) {
      const QuantizedMatrix matrix = quantize(normal({5, inputs}, at::kFloat, 3), how);
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        EXPECT_TRUE(aten_fallback::dequantized(matrix, type).equal(dequantize(matrix, type)));
      }
    }
  }
}

}  // namespace
}  // namespace colossal::ops
