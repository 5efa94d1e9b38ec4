#include "colossal/ops/product/quantized_matrix.h"

#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Float8_e4m3fn.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/ops/fallback/aten_fallback_quantized.h"
#include "colossal/ops/kernels/quantized_rows.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::ops {
namespace {

constexpr int64_t kBlock = kernels::kCodeBlock;
constexpr int kInt8Most = 127, kInt4Most = 15, kInt4Middle = 8;
constexpr float kFp8Most = 448;
constexpr int64_t kQuantizedRowsOfThread = 16;

using Type = Quantization::Type;

int64_t blocks_of(int64_t inputs) {
  return (inputs + kBlock - 1) / kBlock;
}

int64_t row_bytes_of(int64_t inputs, Type type) {
  return blocks_of(inputs) * (type == Type::int4 ? kBlock / 2 : kBlock);
}

// Rounds to the nearest integer, ties to even. |number| must be below 2^22. Compilers vectorize
// this.
int nearest_integer(float number) {
  constexpr float kShift = 3 << 22;
  return static_cast<int>((number + kShift) - kShift);
}

struct Group {
  float scale = 0;
  int zero = 0;

  float steps(float number) const { return scale == 0 ? 0 : number / scale; }
  // Returns the code of `number`, clamped to [low, high].
  int code(float number, int low, int high) const {
    return std::clamp(nearest_integer(steps(number)) + zero, low, high);
  }
};

float to_bfloat16(float value) {
  return static_cast<float>(at::BFloat16(value));
}

// The least and the largest of a group's numbers and 0. Including 0 gives 0 an exact code.
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
  // Returns the number with the largest magnitude, with its sign; of two, the negative one.
  float furthest() const { return most > -least ? most : least; }
};

Group group_with_zero(const Extremes& extremes) {
  const float scale = to_bfloat16((extremes.most - extremes.least) / kInt4Most);
  if (scale == 0) return {};
  return {scale, std::clamp(nearest_integer(-extremes.least / scale), 0, kInt4Most)};
}

Group choose_group(const Extremes& extremes, const Quantization& how) {
  if (how.type != Type::int4) {
    const float most = how.type == Type::int8 ? kInt8Most : kFp8Most;
    return {to_bfloat16(std::abs(extremes.furthest()) / most), 0};
  }
  if (how.zero_point) return group_with_zero(extremes);
  // The number with the largest magnitude gets code 0, which is 8 steps from the middle; code 15 is
  // only 7. So the scale may be negative.
  return {to_bfloat16(extremes.furthest() / -kInt4Middle), kInt4Middle};
}

void store_int8(const float* numbers, int64_t count, const Group& group, uint8_t* row,
                int64_t begin) {
  for (int64_t i = 0; i < count; ++i) {
    row[begin + i] = static_cast<uint8_t>(
        static_cast<int8_t>(group.code(numbers[i], -kInt8Most - 1, kInt8Most)));
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

void store_fp8(const float* numbers, int64_t count, const Group& group, uint8_t* row,
               int64_t begin) {
  for (int64_t i = 0; i < count; ++i) {
    const float number = std::clamp(group.steps(numbers[i]), -kFp8Most, kFp8Most);
    row[begin + i] = c10::Float8_e4m3fn(number).x;
  }
}

auto store_of(Type type) {
  return type == Type::int8 ? store_int8 : type == Type::int4 ? store_int4 : store_fp8;
}

kernels::DequantizeRow kernel_to(at::ScalarType type, Type codes) {
  const kernels::CodeKernels& kernels = code_kernels(codes);
  return type == at::kBFloat16 ? kernels.to_bfloat16 : kernels.to_float32;
}

kernels::ScaleType scale_type(at::ScalarType type) {
  if (type == at::kBFloat16) return kernels::ScaleType::bfloat16;
  COLOSSAL_CHECK(type == at::kHalf || type == at::kFloat, "scales of {}", at::toString(type));
  return type == at::kHalf ? kernels::ScaleType::float16 : kernels::ScaleType::float32;
}

// Returns the matrix of some of the outputs. rows(tensor): the rows of these outputs.
template <typename Rows>
QuantizedMatrix of_outputs(const QuantizedMatrix& matrix, int64_t count, const Rows& rows) {
  QuantizedMatrix part = matrix;
  part.outputs = count;
  part.codes = rows(matrix.codes);
  part.scales = rows(matrix.scales);
  if (matrix.zeros.defined()) part.zeros = rows(matrix.zeros);
  return part;
}

// Returns dequantized rows, [rows, inputs] in `type`. Row i is output output_of(i) of the matrix.
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
  parallel_for(0, rows, kRowsOfThread, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      dequantize_row(weight, output_of(row), to + row * row_bytes);
    }
  });
  return numbers.narrow(1, 0, matrix.inputs).to(type);
}

void require_group(const Quantization& how) {
  if (how.group >= 0 && how.group % Quantization::kGroupStep == 0) return;
  throw ConfigError(
      fmt::format("a quantization group of {}: must be 0 (a whole row) or a multiple of {}",
                  how.group, Quantization::kGroupStep));
}

// Calls visit(row, index) for each row of the weight, converted to fp32, from several threads.
template <typename Visit>
void for_rows_of_weight(const at::Tensor& weight, const Visit& visit) {
  COLOSSAL_CHECK(weight.dim() == 2, "{} dims", weight.dim());
  parallel_for(0, weight.size(0), kQuantizedRowsOfThread, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kQuantizedRowsOfThread) {
      const int64_t count = std::min(kQuantizedRowsOfThread, end - first);
      const at::Tensor rows = weight.narrow(0, first, count).to(at::kFloat).contiguous();
      for (int64_t row = 0; row < count; ++row) {
        visit(rows.const_data_ptr<float>() + row * weight.size(1), first + row);
      }
    }
  });
}

// Calls visit(index, first input, number of inputs) for each group of an output.
template <typename Visit>
void for_groups(int64_t inputs, const Quantization& how, const Visit& visit) {
  const int64_t size = inputs_of_group(inputs, how);
  for (int64_t begin = 0; begin < inputs; begin += size) {
    visit(begin / size, begin, std::min(size, inputs - begin));
  }
}

}  // namespace

int64_t QuantizedMatrix::bytes() const {
  return static_cast<int64_t>(codes.nbytes() + scales.nbytes() +
                              (zeros.defined() ? zeros.nbytes() : 0));
}

QuantizedMatrix to_device(const QuantizedMatrix& matrix, at::Device device) {
  QuantizedMatrix moved = matrix;
  moved.codes = matrix.codes.to(device);
  moved.scales = matrix.scales.to(device);
  if (matrix.zeros.defined()) moved.zeros = matrix.zeros.to(device);
  return moved;
}

int64_t inputs_of_group(int64_t inputs, const Quantization& how) {
  const int64_t all = std::max<int64_t>(1, blocks_of(inputs)) * kBlock;
  return how.group == 0 ? all : std::min(how.group, all);
}

int64_t groups_of_output(int64_t inputs, const Quantization& how) {
  const int64_t size = inputs_of_group(inputs, how);
  return (inputs + size - 1) / size;
}

GroupScales choose_scales(const at::Tensor& weight, const Quantization& how,
                          const at::Tensor& extremes) {
  require_group(how);
  COLOSSAL_CHECK(!extremes.defined() || how.group == 0, "extremes of groups of {}", how.group);
  const int64_t outputs = weight.size(0), inputs = weight.size(1);
  const int64_t groups = groups_of_output(inputs, how);
  GroupScales chosen{.scales = at::empty({outputs, groups}, at::kBFloat16), .zeros = {}};
  auto* scales = chosen.scales.mutable_data_ptr<at::BFloat16>();
  uint8_t* zeros = nullptr;
  if (how.type == Type::int4 && how.zero_point) {
    chosen.zeros = at::empty({outputs, groups}, at::kByte);
    zeros = chosen.zeros.mutable_data_ptr<uint8_t>();
  }
  const float* given = extremes.defined() ? extremes.const_data_ptr<float>() : nullptr;
  for_rows_of_weight(weight, [&](const float* numbers, int64_t output) {
    for_groups(inputs, how, [&](int64_t index, int64_t begin, int64_t count) {
      const Extremes found = given ? Extremes{given[2 * output], given[2 * output + 1]}
                                   : Extremes::of(numbers + begin, count);
      const Group group = choose_group(found, how);
      scales[output * groups + index] = group.scale;
      if (zeros) zeros[output * groups + index] = static_cast<uint8_t>(group.zero);
    });
  });
  return chosen;
}

QuantizedMatrix quantize(const at::Tensor& weight, const Quantization& how,
                         const GroupScales& given) {
  require_group(how);
  QuantizedMatrix matrix{.how = how, .outputs = weight.size(0), .inputs = weight.size(1)};
  const int64_t groups = groups_of_output(matrix.inputs, how);
  COLOSSAL_CHECK(given.scales.size(0) == matrix.outputs && given.scales.size(1) == groups,
                 "scales of {} by {} groups, the weight has {} by {}", given.scales.size(0),
                 given.scales.size(1), matrix.outputs, groups);
  matrix.codes = at::zeros({matrix.outputs, row_bytes_of(matrix.inputs, how.type)}, at::kByte);
  matrix.scales = given.scales.contiguous();
  if (given.zeros.defined()) matrix.zeros = given.zeros.contiguous();
  const at::Tensor numbers_of_scales = matrix.scales.to(at::kFloat);
  const auto* scales = numbers_of_scales.const_data_ptr<float>();
  const uint8_t* zeros = matrix.zeros.defined() ? matrix.zeros.const_data_ptr<uint8_t>() : nullptr;
  const int zero = how.type == Type::int4 ? kInt4Middle : 0;
  auto* codes = matrix.codes.mutable_data_ptr<uint8_t>();
  const auto store = store_of(how.type);
  for_rows_of_weight(weight, [&](const float* numbers, int64_t output) {
    for_groups(matrix.inputs, how, [&](int64_t index, int64_t begin, int64_t count) {
      const int64_t place = output * groups + index;
      const Group group{scales[place], zeros ? zeros[place] : zero};
      store(numbers + begin, count, group, codes + output * matrix.codes.size(1), begin);
    });
  });
  return matrix;
}

QuantizedMatrix quantize(const at::Tensor& weight, const Quantization& how) {
  return quantize(weight, how, choose_scales(weight, how));
}

at::Tensor unpacked_codes(const QuantizedMatrix& matrix) {
  const at::Tensor codes = matrix.codes.view({matrix.outputs, blocks_of(matrix.inputs), -1});
  const bool is_int4 = matrix.how.type == Type::int4;
  const at::Tensor whole =
      is_int4 ? at::cat({codes.bitwise_and(kInt4Most), codes.bitwise_right_shift(4)}, -1) : codes;
  return whole.flatten(1).narrow(1, 0, matrix.inputs).contiguous();
}

at::Tensor dequantized_rows(const QuantizedMatrix& matrix, int64_t begin, int64_t end,
                            at::ScalarType type) {
  if (matrix.codes.is_cuda()) {
    const auto rows = [&](const at::Tensor& all) { return all.narrow(0, begin, end - begin); };
    return aten_fallback::dequantized(of_outputs(matrix, end - begin, rows), type);
  }
  return rows_as_numbers(matrix, end - begin, type, [&](int64_t row) { return begin + row; });
}

at::Tensor dequantized_rows(const QuantizedMatrix& matrix, const at::Tensor& indices) {
  const at::Tensor flat = indices.flatten().contiguous();
  if (matrix.codes.is_cuda()) {
    const auto rows = [&](const at::Tensor& all) { return all.index_select(0, flat); };
    std::vector<int64_t> sizes = indices.sizes().vec();
    sizes.push_back(matrix.inputs);
    return aten_fallback::dequantized(of_outputs(matrix, flat.numel(), rows), matrix.type)
        .view(sizes);
  }
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

const kernels::CodeKernels& code_kernels(Quantization::Type type) {
  const kernels::QuantizedKernels& kernels = kernels::quantized_kernels();
  return type == Type::int8 ? kernels.int8 : type == Type::int4 ? kernels.int4 : kernels.fp8;
}

kernels::QuantizedWeight kernel_weight(const QuantizedMatrix& matrix) {
  const int64_t blocks = blocks_of(matrix.inputs);
  const int64_t group = matrix.how.group / kBlock;
  return {.blocks = blocks,
          .group_blocks = group == 0 ? blocks : std::min(group, blocks),
          .groups = matrix.scales.size(1),
          .codes = matrix.codes.const_data_ptr(),
          .row_bytes = matrix.codes.size(1),
          .scales = matrix.scales.const_data_ptr(),
          .scale_type = scale_type(matrix.scales.scalar_type()),
          .zeros = matrix.zeros.defined() ? matrix.zeros.const_data_ptr<uint8_t>() : nullptr};
}

}  // namespace colossal::ops
