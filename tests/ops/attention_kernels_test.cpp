// The loops of attention: every instruction set gives the same bits, and the right ones.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "colossal/ops/kernels/attention_passes.h"
#include "colossal/ops/kernels/block_product.h"
#include "tests/ops/kernel_variants.h"

namespace colossal::ops::kernels {
namespace {

float from_half(uint32_t bits) {
  return __builtin_bit_cast(float, bits << 16);
}

enum class Kind { plain, masked, general };
constexpr Kind kKinds[] = {Kind::plain, Kind::masked, Kind::general};

// A block of 33 keys and 48 lanes, all it may have: a diagonal, two documents, dropout, a window,
// ALiBi, and scores that are said to be capped.
template <typename Real>
struct Block {
  static constexpr int64_t kKeys = 33, kLanes = 48, kStride = 64;

  std::vector<Real> scores = numbers<Real>(kKeys * kStride, 1, 20);
  std::vector<Real> limits, query_documents, key_documents, positions;
  std::vector<uint32_t> kept;
  AttentionBlock block;

  Block(Kind kind, bool dropout) {
    const bool masked = kind != Kind::plain, general = kind == Kind::general;
    for (int64_t i = 0; i < kLanes; ++i) positions.push_back(static_cast<Real>(80 + i));
    for (int64_t i = 0; i < kLanes; ++i) limits.push_back(static_cast<Real>(i < 5 ? 0 : 70 + i));
    for (int64_t i = 0; i < kLanes; ++i) query_documents.push_back(i > 30 ? 1 : 0);
    for (int64_t i = 0; i < kKeys; ++i) key_documents.push_back(i > 20 ? 1 : 0);
    for (uint32_t i = 0; i < 2 * kStride; ++i) kept.push_back(i * 2'654'435'761U);
    block = {.type = sizeof(Real) == 8 ? ElementType::float64 : ElementType::float32,
             .scores = scores.data(),
             .stride = kStride,
             .keys = kKeys,
             .lanes = kLanes,
             .scale = 0.3,
             .key_begin = 64,
             .limits = masked ? limits.data() : nullptr,
             .query_documents = query_documents.data(),
             .key_documents = key_documents.data(),
             .positions = general ? positions.data() : nullptr,
             .window = general ? 30.0 : 0,
             .prefix_end = general ? 67 : 0,
             .slope = general ? 0.05 : 0,
             .soft_cap = general ? 100.0 : 0,
             .kept = dropout ? kept.data() : nullptr,
             .kept_scale = 1.25};
  }

  bool sees(int64_t lane, int64_t key) const {
    if (!block.limits) return true;
    const bool in_window =
        block.window == 0 || 64 + key < block.prefix_end || 64 + key > positions[lane] - 30;
    return in_window && 64 + key < limits[lane] && query_documents[lane] == key_documents[key];
  }
  double score(int64_t lane, int64_t key) const {
    const double distance = 64 + key - static_cast<double>(positions[lane]);
    return sees(lane, key) ? 0.3 * scores[key * kStride + lane] + block.slope * distance
                           : -INFINITY;
  }
  double slope_of_cap(int64_t lane, int64_t key) const {
    if (block.soft_cap == 0) return 1;
    return 1 - std::pow(static_cast<double>(scores[key * kStride + lane]) / block.soft_cap, 2);
  }
  double factor(int64_t lane, int64_t key) const {
    if (!block.kept) return 1;
    return kept[key / 32 * kStride + lane] >> key % 32 & 1 ? 1.25 : 0;
  }
};

// What one call leaves behind, as numbers that can be compared.
template <typename Real>
struct Forward {
  std::vector<Real> scores, maxima, sums, outputs;
  std::vector<uint32_t> pairs;
};

template <typename Real>
Forward<Real> run_forward(const VectorKernels& kernels, const Block<Real>& given, bool pairs) {
  using B = Block<Real>;
  Forward<Real> out{given.scores, std::vector<Real>(B::kLanes, -INFINITY),
                    std::vector<Real>(B::kLanes, 0), numbers<Real>(3 * B::kStride, 2),
                    std::vector<uint32_t>(pairs ? (B::kKeys + 1) / 2 * B::kStride : 0)};
  for (int64_t i = 16; i < 32; ++i) out.maxima[i] = -3, out.sums[i] = 2;
  AttentionBlock block = given.block;
  block.scores = out.scores.data();
  kernels.attention_probabilities(block,
                                  {out.maxima.data(), out.sums.data(), out.outputs.data(), 3},
                                  pairs ? out.pairs.data() : nullptr);
  return out;
}

template <typename Value>
void expect_same_bits(const std::vector<Value>& a, const std::vector<Value>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(Value)), 0) << i << ": " << a[i] << ", " << b[i];
  }
}

template <typename Real>
void expect_forward_right(Kind kind, bool dropout, double tolerance) {
  using B = Block<Real>;
  const B given(kind, dropout);
  const Forward<Real> first = run_forward(*variants()[0], given, false);
  const std::vector<Real> outputs = numbers<Real>(3 * B::kStride, 2);
  for (int64_t lane = 0; lane < B::kLanes; ++lane) {
    double top = -INFINITY, sum = 0;
    for (int64_t key = 0; key < B::kKeys; ++key) top = std::max(top, given.score(lane, key));
    const double maximum = first.maxima[lane];
    if (top == -INFINITY && (lane < 16 || lane >= 32)) {
      EXPECT_EQ(maximum, -INFINITY);
      EXPECT_EQ(first.sums[lane], 0);
      continue;
    }
    EXPECT_LE(top, maximum + 8 + tolerance);
    double factor = 0;
    if (lane >= 16 && lane < 32) factor = std::exp2(-3 - maximum), sum = 2 * factor;
    for (int64_t key = 0; key < B::kKeys; ++key) {
      const double p = std::exp2(given.score(lane, key) - maximum);
      sum += p;
      const double expected = p * given.factor(lane, key);
      EXPECT_NEAR(first.scores[key * B::kStride + lane], expected, 30 * tolerance * expected);
    }
    EXPECT_NEAR(first.sums[lane], sum, 30 * tolerance * sum);
    for (int64_t row = 0; row < 3; ++row) {
      const double expected = outputs[row * B::kStride + lane] * factor;
      EXPECT_NEAR(first.outputs[row * B::kStride + lane], expected, tolerance * std::abs(expected));
    }
  }
  for (const VectorKernels* kernels : variants()) {
    for (const bool pairs : {false, true}) {
      if (pairs && sizeof(Real) == 8) continue;
      const Forward<Real> found = run_forward(*kernels, given, pairs);
      expect_same_bits(found.maxima, first.maxima);
      expect_same_bits(found.sums, first.sums);
      expect_same_bits(found.outputs, first.outputs);
      if (!pairs) expect_same_bits(found.scores, first.scores);
      for (int64_t key = 0; pairs && key < B::kKeys + 1; ++key) {
        for (int64_t lane = 0; lane < B::kLanes; ++lane) {
          const uint32_t pair = found.pairs[key / 2 * B::kStride + lane];
          const double half = from_half(key % 2 ? pair >> 16 : pair & 0xFFFF);
          const double wide = key < B::kKeys ? first.scores[key * B::kStride + lane] : 0;
          EXPECT_NEAR(half, wide, wide / 256);
        }
      }
    }
  }
}

TEST(AttentionKernels, ProbabilitiesAreThoseOfTheFormulaAndAgreeBitForBit) {
  for (const Kind kind : kKinds) {
    for (const bool dropout : {false, true}) {
      expect_forward_right<float>(kind, dropout, 1e-6);
      expect_forward_right<double>(kind, dropout, 1e-14);
    }
  }
}

template <typename Real>
void expect_backward_right(Kind kind, bool dropout, double tolerance) {
  using B = Block<Real>;
  const B given(kind, dropout);
  const auto gradients = numbers<Real>(B::kKeys * B::kStride, 3);
  const auto deltas = numbers<Real>(B::kStride, 4);
  const std::vector<Real> logsumexps(B::kStride, Real{20});
  const auto run = [&](const VectorKernels& kernels, const AttentionBf16Operands* halves) {
    std::vector<std::vector<Real>> out = {given.scores, gradients};
    AttentionBlock block = given.block;
    block.scores = out[0].data();
    kernels.attention_gradients(block, out[1].data(), logsumexps.data(), deltas.data(), halves);
    return out;
  };
  const auto first = run(*variants()[0], nullptr);
  for (int64_t key = 0; key < B::kKeys; ++key) {
    for (int64_t lane = 0; lane < B::kLanes; ++lane) {
      const int64_t place = key * B::kStride + lane;
      const double p = std::exp2(given.score(lane, key) - 20);
      const double factor = given.factor(lane, key);
      EXPECT_NEAR(first[0][place], p * factor, 30 * tolerance * p);
      EXPECT_NEAR(first[1][place],
                  p * (gradients[place] * factor - deltas[lane]) * given.slope_of_cap(lane, key),
                  100 * tolerance * p);
    }
  }
  for (const VectorKernels* kernels : variants()) {
    const auto found = run(*kernels, nullptr);
    expect_same_bits(found[0], first[0]);
    expect_same_bits(found[1], first[1]);
    if (sizeof(Real) == 8) continue;
    std::vector<uint16_t> probabilities(B::kKeys * B::kStride), halves(B::kKeys * B::kStride);
    std::vector<uint32_t> pairs((B::kKeys + 1) / 2 * B::kStride);
    const AttentionBf16Operands to{probabilities.data(), halves.data(), pairs.data()};
    run(*kernels, &to);
    for (int64_t key = 0; key < B::kKeys + 1; ++key) {
      for (int64_t lane = 0; lane < B::kLanes; ++lane) {
        const uint32_t pair = pairs[key / 2 * B::kStride + lane];
        const uint32_t half = key % 2 ? pair >> 16 : pair & 0xFFFF;
        const int64_t place = key * B::kStride + lane;
        EXPECT_EQ(half, key < B::kKeys ? halves[place] : 0);
        if (key == B::kKeys) continue;
        EXPECT_NEAR(from_half(half), first[1][place], std::abs(first[1][place]) / 256);
        EXPECT_NEAR(from_half(probabilities[place]), first[0][place], first[0][place] / 256);
      }
    }
  }
}

TEST(AttentionKernels, GradientsAreThoseOfTheFormulaAndAgreeBitForBit) {
  for (const Kind kind : kKinds) {
    for (const bool dropout : {false, true}) {
      expect_backward_right<float>(kind, dropout, 1e-6);
      expect_backward_right<double>(kind, dropout, 1e-14);
    }
  }
}

// Where the CPU has them: against those in fp32, to half a unit in the last place of bf16.
TEST(AttentionKernels, NativeBf16PassesAreThoseOfTheFormula) {
  using B = Block<float>;
  const AttentionPasses* native = native_bf16_attention_passes();
  if (!native) GTEST_SKIP() << "this CPU has no products of bf16 pairs (AVX512_BF16)";
  VectorKernels kernels = *variants()[0];
  kernels.attention_probabilities = native->probabilities;
  kernels.attention_gradients = native->gradients;
  const auto gradients = numbers<float>(B::kKeys * B::kStride, 3);
  const auto deltas = numbers<float>(B::kStride, 4);
  const std::vector<float> logsumexps(B::kStride, 20);
  const auto expect_rounded = [](double half, double wide) {
    EXPECT_NEAR(half, wide, std::abs(wide) * 0x1.02p-8);
  };
  for (const Kind kind : kKinds) {
    for (const bool dropout : {false, true}) {
      const B given(kind, dropout);
      const Forward<float> found = run_forward(kernels, given, true);
      const Forward<float> wide = run_forward(*variants()[0], given, false);
      if (kind != Kind::general) expect_same_bits(found.maxima, wide.maxima);
      std::vector<float> scores = given.scores, wide_scores = scores, wide_gradients = gradients;
      std::vector<uint16_t> probabilities(B::kKeys * B::kStride), halves(B::kKeys * B::kStride);
      std::vector<uint32_t> pairs((B::kKeys + 1) / 2 * B::kStride);
      const AttentionBf16Operands to{probabilities.data(), halves.data(), pairs.data()};
      AttentionBlock block = given.block;
      block.scores = scores.data();
      native->gradients(block, const_cast<float*>(gradients.data()), logsumexps.data(),
                        deltas.data(), &to);
      block.scores = wide_scores.data();
      variants()[0]->attention_gradients(block, wide_gradients.data(), logsumexps.data(),
                                         deltas.data(), nullptr);
      for (int64_t lane = 0; lane < B::kLanes; ++lane) {
        EXPECT_NEAR(found.sums[lane], wide.sums[lane], 1e-5 * wide.sums[lane]);
        for (int64_t key = 0; key < B::kKeys + 1; ++key) {
          const int64_t place = key * B::kStride + lane, pair = key / 2 * B::kStride + lane;
          const int shift = key % 2 * 16;
          const uint32_t gradient = pairs[pair] >> shift & 0xFFFF;
          const uint32_t probability = found.pairs[pair] >> shift & 0xFFFF;
          if (key == B::kKeys) {
            EXPECT_EQ(gradient | probability, 0U);
            continue;
          }
          EXPECT_EQ(gradient, halves[place]);
          expect_rounded(from_half(gradient), wide_gradients[place]);
          expect_rounded(from_half(probabilities[place]), wide_scores[place]);
          expect_rounded(from_half(probability), wide.scores[place]);
        }
      }
    }
  }
}

TEST(AttentionKernels, NativeBf16PassesKeepWhatIsNotANumber) {
  const AttentionPasses* native = native_bf16_attention_passes();
  if (!native) GTEST_SKIP() << "this CPU has no products of bf16 pairs (AVX512_BF16)";
  Block<float> given(Kind::plain, false);
  given.scores[3] = NAN;
  VectorKernels kernels = *variants()[0];
  kernels.attention_probabilities = native->probabilities;
  const Forward<float> found = run_forward(kernels, given, true);
  EXPECT_TRUE(std::isnan(found.sums[3]));
  EXPECT_TRUE(std::isnan(from_half(found.pairs[3] & 0xFFFF)));
  EXPECT_FALSE(std::isnan(found.sums[4]));
}

// Scores up to 200,000 of either sign; the first is 0, the second is not a number.
template <typename Real>
std::vector<Real> scores_to_cap() {
  std::vector<Real> scores{0, NAN};
  for (int64_t i = 2; i < 40 * 64; ++i) {
    const double size = std::exp(static_cast<double>(i) / 80 - 20);
    scores.push_back(static_cast<Real>(i % 2 == 0 ? size : -size));
  }
  return scores;
}

template <typename Real>
std::vector<Real> capped(std::vector<Real> scores, decltype(VectorKernels::soft_cap) kernel) {
  kernel({.type = sizeof(Real) == 8 ? ElementType::float64 : ElementType::float32,
          .scores = scores.data(),
          .stride = 64,
          .keys = 40,
          .lanes = 48,
          .scale = 0.3,
          .soft_cap = 50});
  return scores;
}

template <typename Real>
void expect_capped_right(const std::vector<Real>& found, double tolerance) {
  const std::vector<Real> scores = scores_to_cap<Real>();
  EXPECT_EQ(found[0], 0);
  EXPECT_TRUE(std::isnan(found[1]));
  for (size_t i = 2; i < scores.size(); ++i) {
    const auto score = static_cast<double>(scores[i]);
    const double expected = i % 64 < 48 ? 50 * std::tanh(score * 0.3 / 50) : score;
    EXPECT_NEAR(found[i], expected, tolerance * std::abs(expected));
  }
}

template <typename Real>
void expect_all_cap_right(double tolerance) {
  const auto first = capped(scores_to_cap<Real>(), variants()[0]->soft_cap);
  expect_capped_right(first, tolerance);
  for (const VectorKernels* kernels : variants()) {
    expect_same_bits(capped(scores_to_cap<Real>(), kernels->soft_cap), first);
  }
}

TEST(AttentionKernels, CappedScoresAreThoseOfTheFormulaAndAgreeBitForBit) {
  expect_all_cap_right<float>(5e-7);
  expect_all_cap_right<double>(1e-15);
  if (const AttentionPasses* native = native_bf16_attention_passes()) {
    expect_capped_right(capped(scores_to_cap<float>(), native->soft_cap), 5e-7);
  }
}

TEST(AttentionKernels, KeptBitsAreThoseOfTheRandomWords) {
  std::vector<RandomRow> rows;
  for (uint32_t i = 0; i < 16; ++i) rows.push_back(random_row({1, 2}, 3, i));
  constexpr uint32_t kThreshold = 3'000'000'000;
  for (const VectorKernels* kernels : variants()) {
    std::vector<uint32_t> bits(2 * 20);
    kernels->kept_bits(rows.data(), 16, kThreshold, 5, bits.data(), 20);
    for (int64_t lane = 0; lane < 16; ++lane) {
      uint32_t words[kRandomGroup];
      random_words(rows[lane], 5, words);
      for (int64_t key = 0; key < 64; ++key) {
        EXPECT_EQ(bits[key / 32 * 20 + lane] >> key % 32 & 1, words[key] >= kThreshold);
      }
    }
  }
}

TEST(AttentionKernels, InnerProductsAgreeBitForBit) {
  for (const int64_t count : {1, 17, 64, 600}) {
    const auto a = numbers<float>(count, 1), b = numbers<float>(count, 2);
    const auto wide = numbers<double>(count, 3);
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
    const double first = variants()[0]->inner_product(a.data(), ElementType::float32, b.data(),
                                                      ElementType::float32, count);
    EXPECT_NEAR(first, sum, 1e-5 * count);
    for (const VectorKernels* kernels : variants()) {
      EXPECT_EQ(kernels->inner_product(a.data(), ElementType::float32, b.data(),
                                       ElementType::float32, count),
                first);
      EXPECT_EQ(kernels->inner_product(wide.data(), ElementType::float64, wide.data(),
                                       ElementType::float64, count),
                variants()[0]->inner_product(wide.data(), ElementType::float64, wide.data(),
                                             ElementType::float64, count));
    }
  }
}

template <typename Element, typename Transpose>
void expect_transposed(const Transpose& transpose) {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{1, 1}, {16, 16}, {64, 32}, {37, 21}, {3, 50}}) {
    const int64_t from_stride = columns + 3, to_stride = rows + 2;
    std::vector<Element> from(rows * from_stride);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<Element>(i * 2'654'435'761U);
    std::vector<Element> to(columns * to_stride, 77), expected = to;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        expected[column * to_stride + row] = from[row * from_stride + column];
      }
    }
    transpose(from.data(), from_stride, rows, columns, to.data(), to_stride);
    EXPECT_EQ(to, expected) << rows << " " << columns;
  }
}

TEST(AttentionKernels, CopiesAreTransposedAndRowsInterleaved) {
  for (const VectorKernels* kernels : variants()) {
    expect_transposed<uint32_t>(kernels->transpose32);
    expect_transposed<uint64_t>(kernels->transpose64);
    std::vector<uint16_t> from(6 * 40);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint16_t>(i * 40'503);
    std::vector<uint32_t> to(3 * 38);
    kernels->interleave_pairs(from.data(), 40, 6, 37, to.data(), 38);
    for (int64_t row = 0; row < 6; ++row) {
      for (int64_t column = 0; column < 37; ++column) {
        EXPECT_EQ(to[row / 2 * 38 + column] >> (row % 2 * 16) & 0xFFFF, from[row * 40 + column]);
      }
    }
  }
}

template <typename Real>
void expect_product_right(BlockProduct<Real> product, double tolerance) {
  for (const auto& [rows, columns, depth] :
       {std::array<int64_t, 3>{1, 16, 1}, {64, 128, 64}, {13, 48, 33}, {29, 16, 7}}) {
    for (const bool transposed : {false, true}) {
      const int64_t stride = (transposed ? rows : depth) + 3;
      const auto a = numbers<Real>((transposed ? depth : rows) * stride, 1);
      const auto b = numbers<Real>(depth * (columns + 5), 2);
      const Matrix<Real> left{a.data(), transposed ? 1 : stride, transposed ? stride : 1};
      for (const bool add : {false, true}) {
        const auto before = numbers<Real>(rows * (columns + 2), 3);
        auto c = before;
        product(rows, columns, depth, left, b.data(), columns + 5, c.data(), columns + 2, add);
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns + 2; ++j) {
            double sum = add || j >= columns ? before[i * (columns + 2) + j] : 0;
            for (int64_t k = 0; j < columns && k < depth; ++k) {
              sum += static_cast<double>(a[i * left.row_stride + k * left.column_stride]) *
                     b[k * (columns + 5) + j];
            }
            EXPECT_NEAR(c[i * (columns + 2) + j], sum, tolerance * std::sqrt(depth));
          }
        }
      }
    }
  }
}

TEST(AttentionKernels, BlockProductsAreRightOnEveryInstructionSet) {
  for (const InstructionSet set : kAllInstructionSets) {
    const BlockProductKernels* kernels = block_product_kernels(set);
    if (!kernels) continue;
    expect_product_right<float>(kernels->float32, 1e-5);
    expect_product_right<double>(kernels->float64, 1e-13);
  }
}

}  // namespace
}  // namespace colossal::ops::kernels
