#include "colossal/ops/product/packed_weight.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <sstream>

#include "colossal/ops/product/quantized_matrix.h"
#include "tests/ops/tensors.h"

namespace colossal::ops {
namespace packed_weight_test {

constexpr std::array<PackedType, 2> kTypes{PackedType::int8, PackedType::nf4};

at::Tensor packed(const at::Tensor& weight, const PackedLayout& layout) {
  return pack(weight, block_maxima(weight, layout), layout);
}

// What packed_weight_oracle.py prints.
std::istringstream oracle() {
  const std::string command =
      "'" COLOSSAL_TEST_SOURCE_DIR "/.venv/bin/python' '" COLOSSAL_TEST_SOURCE_DIR
      "/tests/ops/packed_weight_oracle.py'";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> part;
  while (const size_t count = fread(part.data(), 1, part.size(), pipe.get())) {
    text.append(part.data(), count);
  }
  return std::istringstream(text);
}

at::Tensor read(std::istringstream& from, int64_t rows, int64_t columns) {
  const at::Tensor numbers = at::empty({rows, columns}, at::kFloat);
  for (int64_t i = 0; i < numbers.numel(); ++i) from >> numbers.mutable_data_ptr<float>()[i];
  return numbers;
}

TEST(PackedWeight, Nf4HasTheNumbersOfBitsandbytes) {
  std::istringstream from = oracle();
  int cases = 0;
  for (int64_t rows = 0, columns = 0; from >> rows >> columns; ++cases) {
    SCOPED_TRACE(cases);
    const at::Tensor weight = read(from, rows, columns), expected = read(from, rows, columns);
    const auto layout = PackedLayout::whole(PackedType::nf4, rows, columns);
    const at::Tensor found = unpack(packed(weight, layout), layout, at::kFloat);
    EXPECT_LE((found - expected).abs().max().item<float>(),
              1e-6 * weight.abs().max().item<float>());
  }
  EXPECT_EQ(cases, 4);
}

TEST(PackedWeight, Int8HasTheNumbersOfServing) {
  const at::Tensor weight = normal({9, 200}, at::kFloat, 1);
  const auto layout = PackedLayout::whole(PackedType::int8, 9, 200);
  const QuantizedMatrix served = quantize(weight, {.group = 64});
  EXPECT_TRUE(
      unpack(packed(weight, layout), layout, at::kFloat).equal(dequantize(served, at::kFloat)));
}

TEST(PackedWeight, TakesTheseBytes) {
  const auto bits = [](PackedType type) {
    const auto layout = PackedLayout::whole(type, 4096, 4096);
    return static_cast<double>(layout.bytes()) * 8 / (4096.0 * 4096);
  };
  EXPECT_NEAR(bits(PackedType::nf4), 4 + 8.0 / 64 + 32.0 / (64 * 256), 1e-4);
  EXPECT_NEAR(bits(PackedType::int8), 8 + 16.0 / 64, 1e-4);
}

struct Cut {
  std::vector<Range> rows, columns;
};

at::Tensor part_of(const at::Tensor& whole, const Cut& cut) {
  const auto indices = [](const std::vector<Range>& runs) {
    std::vector<at::Tensor> all{at::empty({0}, at::kLong)};
    for (const Range& run : runs) all.push_back(at::arange(run.begin, run.end));
    return at::cat(all);
  };
  return whole.index_select(0, indices(cut.rows)).index_select(1, indices(cut.columns));
}

// Rows long enough for groups of scales to begin within them.
TEST(PackedWeight, APartHasTheNumbersOfTheWhole) {
  const at::Tensor weight = normal({37, 1501}, at::kDouble, 2);
  const std::vector<Cut> cuts{{{{0, 37}}, {{0, 1501}}},
                              {{{0, 5}, {20, 30}}, {{0, 1501}}},
                              {{{0, 37}}, {{500, 777}}},
                              {{{36, 37}}, {{1500, 1501}}},
                              {{{11, 12}}, {{1, 3}, {5, 70}}},
                              {{{3, 4}, {9, 37}}, {{63, 129}}},
                              {{}, {{0, 1501}}},
                              {{{0, 37}}, {}}};
  for (const PackedType type : kTypes) {
    const auto all = PackedLayout::whole(type, 37, 1501);
    const at::Tensor maxima = block_maxima(weight, all);
    const at::Tensor numbers = unpack(pack(weight, maxima, all), all, at::kDouble);
    for (size_t i = 0; i < cuts.size(); ++i) {
      SCOPED_TRACE(i);
      const PackedLayout layout(type, 37, 1501, cuts[i].rows, cuts[i].columns);
      const at::Tensor bytes = pack(part_of(weight, cuts[i]), maxima, layout);
      EXPECT_EQ(bytes.numel(), layout.bytes());
      const at::Tensor expected = part_of(numbers, cuts[i]);
      EXPECT_TRUE(unpack(bytes, layout, at::kDouble).equal(expected));
      const int64_t rows = layout.rows();
      if (rows == 0 || layout.columns() == 0) continue;
      for (const at::ScalarType made : {at::kDouble, at::kFloat, at::kBFloat16}) {
        EXPECT_TRUE(unpacked_rows(bytes, layout, rows / 2, rows, made)
                        .equal(unpacked_rows_fallback(bytes, layout, rows / 2, rows, made)));
      }
    }
  }
}

TEST(PackedWeight, MaximaOfPartsAreThoseOfTheWhole) {
  const at::Tensor weight = normal({7, 150}, at::kFloat, 3);
  const auto all = PackedLayout::whole(PackedType::nf4, 7, 150);
  at::Tensor most = at::zeros({7, 3});
  for (const Range& columns : std::vector<Range>{{0, 50}, {50, 51}, {51, 150}}) {
    const Cut cut{{{0, 7}}, {columns}};
    const PackedLayout layout(PackedType::nf4, 7, 150, cut.rows, cut.columns);
    most = at::maximum(most, block_maxima(part_of(weight, cut), layout));
  }
  EXPECT_TRUE(most.equal(block_maxima(weight, all)));
  EXPECT_EQ(most.max().item<float>(), weight.abs().max().item<float>());
}

}  // namespace packed_weight_test
}  // namespace colossal::ops
