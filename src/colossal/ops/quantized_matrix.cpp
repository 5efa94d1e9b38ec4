#include "colossal/ops/quantized_matrix.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/ops/kernels/quantized_rows.h"

namespace colossal::ops {
namespace {

constexpr int64_t kBlock = kernels::kCodeBlock;
constexpr int kInt8Most = 127, kInt4Most = 15, kInt4Middle = 8;

int64_t blocks_of(int64_t inputs) {
  return (inputs + kBlock - 1) / kBlock;
}

int64_t group_size(const QuantizedMatrix& matrix) {
  const int64_t all = std::max<int64_t>(1, blocks_of(matrix.inputs)) * kBlock;
  return matrix.how.group == 0 ? all : std::min(matrix.how.group, all);
}

// To the nearest integer, ties to even, of numbers below 2^22: what compilers make many at once of.
int nearest_integer(float number) {
  constexpr float kShift = 3 << 22;
  return static_cast<int>((number + kShift) - kShift);
}

struct Group {
  float scale = 0;
  int zero = 0;

  // Codes outside [low, high] are moved into it.
  int code(float number, int low, int high) const {
    const float steps = scale == 0 ? 0 : number / scale;
    return std::clamp(nearest_integer(steps) + zero, low, high);
  }
};

float to_bfloat16(float value) {
  return static_cast<float>(at::BFloat16(value));
}

// Of a group's numbers, and 0, which has a code.
struct Extremes {
  float least = 0, most = 0;

  static Extremes of(const float* numbers, int64_t count) {
    Extremes found;
    for (int64_t i = 0; i < count; ++i) {
      found.least = std::min(found.least, numbers[i]);
      found.most = std::max(found.most, numbers[i]);
    }
    return found;
  }
  // The number furthest from 0, with its sign; of two the negative one.
  float furthest() const { return most > -least ? most : least; }
};

Group group_with_zero(const Extremes& extremes) {
  const float scale = to_bfloat16((extremes.most - extremes.least) / kInt4Most);
  if (scale == 0) return {};
  return {scale, std::clamp(nearest_integer(-extremes.least / scale), 0, kInt4Most)};
}

Group choose_group(const Extremes& extremes, const Quantization& how) {
  if (how.type == Quantization::Type::int8) {
    return {to_bfloat16(std::abs(extremes.furthest()) / kInt8Most), 0};
  }
  if (how.zero_point) return group_with_zero(extremes);
  // The furthest number becomes code 0, which lies further from the middle than 15 does.
  return {to_bfloat16(extremes.furthest() / -kInt4Middle), kInt4Middle};
}

void store_int8(const float* numbers, int64_t count, const Group& group, uint8_t* row,
                int64_t begin) {
  for (int64_t i = 0; i < count; ++i) {
    row[begin + i] =
        static_cast<uint8_t>(static_cast<int8_t>(group.code(numbers[i], -kInt8Most, kInt8Most)));
  }
}

void store_int4(const float* numbers, int64_t count, const Group& group, uint8_t* row,
                int64_t begin) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place = begin + i, block = place / kBlock, inside = place % kBlock;
    const int code = group.code(numbers[i], 0, kInt4Most);
    row[block * kBlock / 2 + inside % (kBlock / 2)] |=
        static_cast<uint8_t>(inside < kBlock / 2 ? code : code << 4);
  }
}

kernels::DequantizeRow kernel_to(at::ScalarType type, Quantization::Type codes) {
  const kernels::QuantizedKernels& kernels = kernels::quantized_kernels();
  const bool is_int8 = codes == Quantization::Type::int8;
  if (type == at::kBFloat16) return is_int8 ? kernels.int8_to_bfloat16 : kernels.int4_to_bfloat16;
  return is_int8 ? kernels.int8_to_float32 : kernels.int4_to_float32;
}

// Row i is the output output_of(i).
template <typename OutputOf>
at::Tensor rows_as_numbers(const QuantizedMatrix& matrix, int64_t rows, at::ScalarType type,
                           const OutputOf& output_of) {
  const at::ScalarType made = type == at::kBFloat16 ? type : at::kFloat;
  const at::Tensor numbers = at::empty({rows, blocks_of(matrix.inputs) * kBlock}, made);
  const kernels::DequantizeRow dequantize_row = kernel_to(made, matrix.how.type);
  const kernels::QuantizedWeight weight = kernel_weight(matrix);
  auto* to = static_cast<char*>(numbers.mutable_data_ptr());
  const int64_t row_bytes = numbers.size(1) * numbers.element_size();
  constexpr int64_t kRowsOfThread = 16;
  at::parallel_for(0, rows, kRowsOfThread, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      dequantize_row(weight, output_of(row), to + row * row_bytes);
    }
  });
  return numbers.narrow(1, 0, matrix.inputs).to(type);
}

QuantizedMatrix empty_matrix(int64_t outputs, int64_t inputs, const Quantization& how) {
  QuantizedMatrix matrix{.how = how, .outputs = outputs, .inputs = inputs};
  const int64_t bytes =
      blocks_of(inputs) * (how.type == Quantization::Type::int8 ? kBlock : kBlock / 2);
  const int64_t size = group_size(matrix), groups = (inputs + size - 1) / size;
  matrix.codes = at::zeros({outputs, bytes}, at::kByte);
  matrix.scales = at::empty({outputs, groups}, at::kBFloat16);
  if (how.type == Quantization::Type::int4 && how.zero_point) {
    matrix.zeros = at::empty({outputs, groups}, at::kByte);
  }
  return matrix;
}

// extremes: of the row's one group; null: those of the numbers here.
void quantize_row(const float* numbers, int64_t output, const Extremes* extremes,
                  QuantizedMatrix& matrix) {
  const int64_t size = group_size(matrix), groups = matrix.scales.size(1);
  auto* row = matrix.codes.mutable_data_ptr<uint8_t>() + output * matrix.codes.size(1);
  for (int64_t index = 0; index < groups; ++index) {
    const int64_t begin = index * size, count = std::min(size, matrix.inputs - begin);
    const Group group =
        choose_group(extremes ? *extremes : Extremes::of(numbers + begin, count), matrix.how);
    const int64_t place = output * groups + index;
    matrix.scales.mutable_data_ptr<at::BFloat16>()[place] = group.scale;
    if (matrix.zeros.defined()) {
      matrix.zeros.mutable_data_ptr<uint8_t>()[place] = static_cast<uint8_t>(group.zero);
    }
    (matrix.how.type == Quantization::Type::int8 ? store_int8 : store_int4)(numbers + begin, count,
                                                                            group, row, begin);
  }
}

std::optional<Extremes> extremes_of_row(const at::Tensor& extremes, int64_t row) {
  if (!extremes.defined()) return std::nullopt;
  const float* found = extremes.const_data_ptr<float>() + 2 * row;
  return Extremes{found[0], found[1]};
}

}  // namespace

int64_t QuantizedMatrix::bytes() const {
  return static_cast<int64_t>(codes.nbytes() + scales.nbytes() +
                              (zeros.defined() ? zeros.nbytes() : 0));
}

QuantizedMatrix quantize(const at::Tensor& weight, const Quantization& how,
                         const at::Tensor& extremes) {
  COLOSSAL_CHECK(weight.dim() == 2, "{} dims", weight.dim());
  COLOSSAL_CHECK(!extremes.defined() || how.group == 0, "extremes of groups of {}", how.group);
  if (how.group < 0 || how.group % Quantization::kGroupStep != 0) {
    throw ConfigError(
        fmt::format("a quantization group of {}: must be 0 (a whole row) or a "
                    "multiple of {}",
                    how.group, Quantization::kGroupStep));
  }
  QuantizedMatrix matrix = empty_matrix(weight.size(0), weight.size(1), how);
  constexpr int64_t kRowsOfThread = 16;
  at::parallel_for(0, matrix.outputs, kRowsOfThread, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kRowsOfThread) {
      const int64_t count = std::min(kRowsOfThread, end - first);
      const at::Tensor rows = weight.narrow(0, first, count).to(at::kFloat).contiguous();
      for (int64_t row = 0; row < count; ++row) {
        const std::optional<Extremes> given = extremes_of_row(extremes, first + row);
        quantize_row(rows.const_data_ptr<float>() + row * matrix.inputs, first + row,
                     given ? &*given : nullptr, matrix);
      }
    }
  });
  return matrix;
}

at::Tensor dequantized_rows(const QuantizedMatrix& matrix, int64_t begin, int64_t end,
                            at::ScalarType type) {
  return rows_as_numbers(matrix, end - begin, type, [&](int64_t row) { return begin + row; });
}

at::Tensor dequantized_rows(const QuantizedMatrix& matrix, const at::Tensor& indices) {
  const at::Tensor flat = indices.flatten().contiguous();
  const auto* outputs = flat.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < flat.numel(); ++row) {
    COLOSSAL_CHECK(outputs[row] >= 0 && outputs[row] < matrix.outputs, "row {} of {}", outputs[row],
                   matrix.outputs);
  }
  std::vector<int64_t> sizes = indices.sizes().vec();
  sizes.push_back(matrix.inputs);
  return rows_as_numbers(matrix, flat.numel(), matrix.type,
                         [&](int64_t row) { return outputs[row]; })
      .reshape(sizes);
}

at::Tensor dequantize(const QuantizedMatrix& matrix, at::ScalarType type) {
  return dequantized_rows(matrix, 0, matrix.outputs, type);
}

kernels::QuantizedWeight kernel_weight(const QuantizedMatrix& matrix) {
  const int64_t blocks = blocks_of(matrix.inputs);
  const int64_t group = matrix.how.group / kBlock;
  return {.blocks = blocks,
          .group_blocks = group == 0 ? blocks : std::min(group, blocks),
          .groups = matrix.scales.size(1),
          .codes = matrix.codes.const_data_ptr(),
          .row_bytes = matrix.codes.size(1),
          .scales = static_cast<const uint16_t*>(matrix.scales.const_data_ptr()),
          .zeros = matrix.zeros.defined() ? matrix.zeros.const_data_ptr<uint8_t>() : nullptr};
}

}  // namespace colossal::ops
