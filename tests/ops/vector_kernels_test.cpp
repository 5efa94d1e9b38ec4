// Every instruction set gives the same bits, and the right ones.
#include "colossal/ops/kernels/vector_kernels.h"

#include <c10/util/BFloat16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/ops/kernel_variants.h"

namespace colossal::ops::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename Real>
constexpr ElementType type_of() {
  return sizeof(Real) == 8 ? ElementType::float64 : ElementType::float32;
}

// run(kernels) gives a vector of results; all variants must give the baseline's bits.
template <typename Run>
void expect_equal_bits(const Run& run) {
  const auto expected = run(*variants()[0]);
  for (const VectorKernels* kernels : variants()) EXPECT_TRUE(same_bits(run(*kernels), expected));
}

TEST(VectorKernels, EveryMachineHasTheBaseline) {
  EXPECT_NE(vector_kernels(InstructionSet::baseline), nullptr);
  EXPECT_EQ(&vector_kernels(), vector_kernels(widest_instruction_set()));
}

TEST(VectorKernels, BfloatRoundsToNearestEvenOnEveryInstructionSet) {
  const std::vector<float> values = {1.0F,        1.00390625F, 1.01171875F, -1.00390625F, 3.4e38F,
                                     kInfinity,   -kInfinity,  0.0F,        -0.0F,        1e-40F,
                                     1.00390637F, 65504.0F,    1.0039062F};
  const std::vector<uint16_t> expected = {0x3F80, 0x3F80, 0x3F82, 0xBF80, 0x7F80, 0x7F80, 0xFF80,
                                          0x0000, 0x8000, 0x0001, 0x3F81, 0x4780, 0x3F80};
  for (const VectorKernels* kernels : variants()) {
    std::vector<uint16_t> rounded(values.size());
    kernels->convert(values.data(), ElementType::float32, rounded.data(), ElementType::bfloat16,
                     values.size(), 1);
    EXPECT_EQ(rounded, expected);
    uint16_t nan = 0;
    kernels->convert(&kNan, ElementType::float32, &nan, ElementType::bfloat16, 1, 1);
    EXPECT_EQ(nan, 0x7FC0);
  }
}

TEST(VectorKernels, ConversionsSumsAndNormsAgreeBitForBit) {
  for (const int64_t count : {1, 15, 512, 1531}) {
    const auto wide = numbers<double>(count, 1);
    const auto narrow = numbers<float>(count, 2);
    expect_equal_bits([&](const VectorKernels& kernels) {
      std::vector<float> sum = narrow;
      std::vector<uint16_t> half(count);
      kernels.accumulate(wide.data(), ElementType::float64, sum.data(), ElementType::float32,
                         count);
      kernels.convert(sum.data(), ElementType::float32, half.data(), ElementType::bfloat16, count,
                      0.3);
      kernels.accumulate(half.data(), ElementType::bfloat16, sum.data(), ElementType::float32,
                         count);
      sum.push_back(
          static_cast<float>(kernels.squared_norm(half.data(), ElementType::bfloat16, count)));
      return sum;
    });
    expect_equal_bits([&](const VectorKernels& kernels) {
      return std::vector<double>{kernels.squared_norm(wide.data(), ElementType::float64, count),
                                 kernels.squared_norm(narrow.data(), ElementType::float32, count)};
    });
  }
}

template <typename Real>
void expect_adamw_equal() {
  constexpr int64_t kCount = 1531;
  const AdamWFactors factors{0.7, 0.9, 0.95, 1 - 1e-4, 1.7e-3, 0.3, 1e-8};
  expect_equal_bits([&](const VectorKernels& kernels) {
    auto master = numbers<Real>(kCount, 1), first = numbers<Real>(kCount, 2);
    auto second = numbers<Real>(kCount, 3), gradient = numbers<Real>(kCount, 4);
    for (Real& v : second) v = std::abs(v);
    std::vector<uint16_t> working(kCount);
    const ElementType type = type_of<Real>();
    kernels.adamw({master.data(), type, working.data(), ElementType::bfloat16, first.data(),
                   second.data(), type, gradient.data(), type},
                  0, kCount, factors);
    for (const uint16_t bits : working) master.push_back(bits);
    master.insert(master.end(), first.begin(), first.end());
    master.insert(master.end(), second.begin(), second.end());
    return master;
  });
}

TEST(VectorKernels, AdamWAgreesBitForBit) {
  expect_adamw_equal<float>();
  expect_adamw_equal<double>();
}

template <typename Real>
void expect_softmax_equal() {
  for (const int64_t count : {1, 17, 511, 1531}) {
    for (const double cap : {0.0, 2.5}) {
      expect_equal_bits([&](const VectorKernels& kernels) {
        auto row = numbers<Real>(count, 5, 4);
        const ElementType type = type_of<Real>();
        if (cap > 0) kernels.cap_row(row.data(), type, count, cap);
        const SoftmaxStatistics statistics = kernels.softmax_statistics(row.data(), type, count);
        kernels.cross_entropy_gradient(row.data(), type, count, statistics, count / 2, cap);
        std::vector<double> results(row.begin(), row.end());
        results.push_back(kernels.logsumexp(statistics));
        return results;
      });
    }
  }
}

TEST(VectorKernels, SoftmaxRowsAgreeBitForBit) {
  expect_softmax_equal<float>();
  expect_softmax_equal<double>();
}

TEST(VectorKernels, GeluAgreesBitForBit) {
  const auto x = numbers<float>(1531, 8, 4), gradient = numbers<float>(1531, 9);
  expect_equal_bits([&](const VectorKernels& kernels) {
    std::vector<float> y(x.size()), slope(x.size());
    kernels.gelu_new(x.data(), y.data(), ElementType::float32, x.size());
    kernels.gelu_new_backward(gradient.data(), x.data(), slope.data(), ElementType::float32,
                              x.size());
    y.insert(y.end(), slope.begin(), slope.end());
    return y;
  });
}

TEST(VectorKernels, GatedActivationsAgreeBitForBit) {
  const auto gate = numbers<float>(1531, 8, 4), up = numbers<float>(1531, 9),
             gradient = numbers<float>(1531, 10);
  expect_equal_bits([&](const VectorKernels& kernels) {
    std::vector<float> results(3 * gate.size());
    float* const to = results.data();
    const auto count = static_cast<int64_t>(gate.size());
    kernels.swiglu(gate.data(), up.data(), to, ElementType::float32, count);
    kernels.swiglu_backward(gradient.data(), gate.data(), up.data(), to + count, to + 2 * count,
                            ElementType::float32, count);
    return results;
  });
  expect_equal_bits([&](const VectorKernels& kernels) {
    std::vector<float> results(3 * gate.size());
    float* const to = results.data();
    const auto count = static_cast<int64_t>(gate.size());
    kernels.geglu(gate.data(), up.data(), to, ElementType::float32, count);
    kernels.geglu_backward(gradient.data(), gate.data(), up.data(), to + count, to + 2 * count,
                           ElementType::float32, count);
    return results;
  });
}

TEST(VectorKernels, RotaryAgreesBitForBit) {
  constexpr int64_t kHeads = 3, kHalf = 521;
  const auto x = numbers<float>(kHeads * 2 * kHalf, 8), cosines = numbers<float>(kHalf, 9),
             sines = numbers<float>(kHalf, 10);
  expect_equal_bits([&](const VectorKernels& kernels) {
    std::vector<float> results(x.size());
    kernels.rotate(x.data(), cosines.data(), sines.data(), results.data(), ElementType::float32,
                   {kHeads, 2 * kHalf, kHalf});
    return results;
  });
  expect_equal_bits([&](const VectorKernels& kernels) {
    std::vector<float> results(x.size());
    kernels.rotate(x.data(), cosines.data(), sines.data(), results.data(), ElementType::float32,
                   {kHeads, 2 * kHalf, kHalf - 7, /*interleaved=*/true});
    return results;
  });
}

template <typename Number>
void expect_norms_equal(ElementType type, const std::vector<Number>& x,
                        const std::vector<Number>& branch, const std::vector<Number>& weight,
                        const std::vector<Number>& gradient) {
  const auto count = static_cast<int64_t>(x.size());
  expect_equal_bits([&](const VectorKernels& kernels) {
    // Sums of gradients are wider than bf16 numbers.
    std::vector<double> sums(2 * count);
    std::vector<Number> sum(count), y(count), slope(count);
    const double mean = kernels.add_row(x.data(), branch.data(), sum.data(), type, count) / count;
    const double squares = kernels.squared_deviations(sum.data(), mean, type, count);
    const NormRow row{sum.data(), weight.data(), mean, 1 / std::sqrt(squares / count), type, count};
    kernels.normalize(row, branch.data(), y.data());
    const NormGradientSums totals =
        kernels.norm_gradient_sums(row, gradient.data(), sums.data(), sums.data() + count);
    kernels.norm_input_gradient(row, gradient.data(), {totals.product / count, totals.weighted},
                                branch.data(), slope.data());
    sums.insert(sums.end(), {kernels.sum_row(x.data(), type, count), mean, squares, totals.product,
                             totals.weighted});
    for (const auto* numbers : {&sum, &y, &slope}) {
      sums.insert(sums.end(), numbers->begin(), numbers->end());
    }
    return sums;
  });
}

TEST(VectorKernels, NormsAgreeBitForBit) {
  for (const int64_t count : {1, 7, 31, 97, 1531}) {
    const auto make = [&](auto number, uint32_t seed) {
      return numbers<decltype(number)>(count, seed);
    };
    const auto halves = [&](uint32_t seed) {
      const std::vector<float> wide = make(float{}, seed);
      std::vector<uint16_t> narrow(count);
      vector_kernels().convert(wide.data(), ElementType::float32, narrow.data(),
                               ElementType::bfloat16, count, 1);
      return narrow;
    };
    expect_norms_equal(ElementType::float64, make(double{}, 1), make(double{}, 2),
                       make(double{}, 3), make(double{}, 4));
    expect_norms_equal(ElementType::float32, make(float{}, 1), make(float{}, 2), make(float{}, 3),
                       make(float{}, 4));
    expect_norms_equal(ElementType::bfloat16, halves(1), halves(2), halves(3), halves(4));
  }
}

TEST(VectorKernels, RandomNumbersAgreeBitForBit) {
  for (const int64_t begin : {int64_t{0}, int64_t{31}, (int64_t{1} << 32) - 40}) {
    expect_equal_bits([&](const VectorKernels& kernels) {
      std::vector<double> values(1531);
      kernels.fill_normal({7, 8}, begin, values.size(), 0.5, 0.02, values.data(),
                          ElementType::float64);
      return values;
    });
  }
  const auto x = numbers<float>(1531, 9);
  expect_equal_bits([&](const VectorKernels& kernels) {
    std::vector<float> y(x.size());
    kernels.dropout(random_row({1, 2}, 3, 4), {1u << 31, 2}, 33, x.size(), x.data(), y.data(),
                    ElementType::float32);
    return y;
  });
}

TEST(VectorKernels, NormalsAreTheInverseNormalOfTheRowsWords) {
  constexpr int64_t kBegin = 5;
  std::vector<double> values(100);
  vector_kernels().fill_normal({7, 8}, kBegin, values.size(), 1, 2, values.data(),
                               ElementType::float64);
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    const int64_t element = kBegin + i;
    uint32_t words[kRandomGroup];
    random_words({{7, 8}, {0, 0, 0}}, static_cast<uint32_t>(element / 32), words);
    const double p = open_uniform(words[element % 32], words[element % 32 + 32]);
    const double back = 0.5 * std::erfc(-(values[i] - 1) / 2 / std::sqrt(2.0));
    EXPECT_NEAR(back, p, 1e-14);
  }
}

template <typename Real>
void expect_softmax_correct(double tolerance) {
  for (const VectorKernels* kernels : variants()) {
    std::vector<Real> row;
    for (int i = 0; i < 1531; ++i) row.push_back(static_cast<Real>(-0.1 * i));
    const ElementType type = type_of<Real>();
    const SoftmaxStatistics statistics = kernels->softmax_statistics(row.data(), type, row.size());
    double sum = 0;
    for (const Real x : row) sum += std::exp(static_cast<double>(x));
    EXPECT_EQ(statistics.maximum, 0);
    EXPECT_NEAR(statistics.sum, sum, tolerance * sum);
    auto gradient = row;
    kernels->cross_entropy_gradient(gradient.data(), type, row.size(), statistics, -1, 0);
    for (size_t i = 0; i < row.size(); ++i) {
      const double expected = std::exp(static_cast<double>(row[i])) / sum;
      EXPECT_NEAR(gradient[i], expected, tolerance * expected + 1e-37) << i;
    }
  }
}

TEST(VectorKernels, SoftmaxIsExactOverTheWholeRange) {
  expect_softmax_correct<float>(4e-7);
  expect_softmax_correct<double>(2e-15);
}

TEST(VectorKernels, PairsOfRowsAreTransposed) {
  for (const VectorKernels* kernels : variants()) {
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{1, 1}, {32, 16}, {64, 64}, {67, 39}, {31, 64}, {2, 5}}) {
      const int64_t from_stride = columns + 3, to_stride = (rows + 1) / 2 + 2;
      std::vector<uint16_t> from(rows * from_stride);
      for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint16_t>(i * 40'503);
      std::vector<uint32_t> to(columns * to_stride, 77), expected = to;
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          uint32_t& pair = expected[column * to_stride + row / 2];
          const uint32_t value = from[row * from_stride + column];
          pair = row % 2 ? pair | value << 16 : value;
        }
      }
      kernels->transpose_pairs(from.data(), from_stride, rows, columns, to.data(), to_stride);
      EXPECT_EQ(to, expected) << rows << " " << columns;
    }
  }
}

// Scaled, then biased, then rounded, each once; nothing is written between the rows.
TEST(VectorKernels, BlocksAreRoundedWithFactorAndBias) {
  constexpr int64_t kRows = 3;
  constexpr float kFactor = 0.375F;
  for (const int64_t columns : {1, 15, 16, 31, 64, 67}) {
    const int64_t from_stride = columns + 5, to_stride = columns + 3;
    const auto from = numbers<float>(kRows * from_stride, 1);
    std::vector<at::BFloat16> bias;
    for (const float value : numbers<float>(columns, 2)) bias.emplace_back(value);
    for (const bool biased : {false, true}) {
      std::vector<uint16_t> expected(kRows * to_stride, 77);
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          const float scaled = from[row * from_stride + column] * kFactor;
          const float added = biased ? scaled + static_cast<float>(bias[column]) : scaled;
          expected[row * to_stride + column] = at::BFloat16(added).x;
        }
      }
      for (const VectorKernels* kernels : variants()) {
        std::vector<uint16_t> to(expected.size(), 77);
        kernels->round_block(from.data(), from_stride, kRows, columns,
                             biased ? &bias[0].x : nullptr, kFactor, to.data(), to_stride);
        EXPECT_EQ(to, expected) << columns << " " << biased;
      }
    }
  }
}

TEST(VectorKernels, PackedNumbersAreLevelsTimesAScaleRoundedOnce) {
  constexpr float kScale = 0.3F;
  const auto levels = numbers<float>(16, 4);
  for (const int64_t bytes : {1, 7, 8, 31, 64}) {
    std::vector<uint8_t> codes;
    for (int64_t i = 0; i < bytes; ++i) codes.push_back(static_cast<uint8_t>(i * 89 + 7));
    std::vector<float> of_nf4, of_int8;
    std::vector<uint16_t> halves;
    for (const uint8_t code : codes) {
      of_nf4.push_back(levels[code >> 4]);
      of_nf4.push_back(levels[code & 15]);
      of_int8.push_back(static_cast<int8_t>(code));
    }
    for (const float level : of_nf4) halves.push_back(at::BFloat16(level * kScale).x);
    for (const VectorKernels* kernels : variants()) {
      std::vector<float> found(of_nf4.size());
      kernels->levels_of_nf4(codes.data(), bytes, levels.data(), found.data());
      EXPECT_EQ(found, of_nf4);
      std::vector<uint16_t> rounded(found.size());
      kernels->scale_levels(found.data(), kScale, std::ssize(found), rounded.data(),
                            ElementType::bfloat16);
      EXPECT_EQ(rounded, halves);
      kernels->scale_levels(found.data(), kScale, std::ssize(found), found.data(),
                            ElementType::float32);
      for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], of_nf4[i] * kScale);
      found.resize(codes.size());
      kernels->levels_of_int8(reinterpret_cast<const int8_t*>(codes.data()), bytes, found.data());
      EXPECT_EQ(found, of_int8);
    }
  }
}

TEST(VectorKernels, AnInfiniteOrUndefinedLogitGivesAnUndefinedLoss) {
  for (const VectorKernels* kernels : variants()) {
    for (const float bad : {kNan, kInfinity}) {
      for (const size_t place : {size_t{0}, size_t{20}, size_t{1530}}) {
        auto row = numbers<float>(1531, 3);
        row[place] = bad;
        const auto statistics =
            kernels->softmax_statistics(row.data(), ElementType::float32, row.size());
        EXPECT_TRUE(std::isnan(kernels->logsumexp(statistics)));
      }
    }
  }
}

TEST(VectorKernels, OneElementThatIsNotFiniteIsFound) {
  for (const VectorKernels* kernels : variants()) {
    std::vector<float> values(1531, std::numeric_limits<float>::max());
    EXPECT_TRUE(kernels->all_finite(values.data(), ElementType::float32, values.size()));
    for (const float bad : {kNan, kInfinity, -kInfinity}) {
      values[1530] = bad;
      EXPECT_FALSE(kernels->all_finite(values.data(), ElementType::float32, values.size()));
      const auto wide = std::vector<double>(values.begin(), values.end());
      EXPECT_FALSE(kernels->all_finite(wide.data(), ElementType::float64, wide.size()));
      std::vector<uint16_t> half(values.size());
      kernels->convert(values.data(), ElementType::float32, half.data(), ElementType::bfloat16,
                       half.size(), 0.5);
      EXPECT_FALSE(kernels->all_finite(half.data(), ElementType::bfloat16, half.size()));
      EXPECT_TRUE(kernels->all_finite(half.data(), ElementType::bfloat16, half.size() - 1));
    }
  }
}

}  // namespace
}  // namespace colossal::ops::kernels
