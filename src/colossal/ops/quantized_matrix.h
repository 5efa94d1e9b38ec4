// Weights of products in few bits: codes, and for each group of an output's inputs a scale and,
// with int4, a zero. number = (code - zero) * scale; of fp8 a code is itself a number, E4M3.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace colossal::ops {

namespace kernels {
struct CodeKernels;
struct QuantizedWeight;
}  // namespace kernels

// How a product takes its input.
enum class Activations {
  as_given,  // as it is; sums in fp32, or fp64 of fp64
  int8,      // rounded to 255 steps of each row's own, with weights of int8
};

struct Quantization {
  enum class Type {
    int8,  // codes of -128 .. 127; the zero is 0. quantize() makes none of -128
    int4,  // codes of 0 .. 15
    fp8,   // E4M3 without infinities: at most 448
  };
  Type type = Type::int8;
  // How many inputs share a scale, a multiple of kGroupStep; the last group of an output may be
  // shorter. 0: all inputs of an output.
  int64_t group = 0;
  bool zero_point = false;  // int4: groups have zeros of their own; else it is 8
  Activations activations = Activations::as_given;

  static constexpr int64_t kGroupStep = 32;

  bool operator==(const Quantization&) const = default;
};

// [outputs, inputs]
struct QuantizedMatrix {
  Quantization how;
  int64_t outputs = 0, inputs = 0;
  at::ScalarType type = at::kFloat;  // of the numbers of rows that are looked up in a table
  at::Tensor codes;   // uint8 [outputs, bytes of a row], as kernels/quantized_rows.h has them
  at::Tensor scales;  // bf16, fp16 or fp32 [outputs, groups]
  at::Tensor zeros;   // uint8 [outputs, groups], undefined without zero points

  int64_t bytes() const;
};

// As a matrix has them.
struct GroupScales {
  at::Tensor scales, zeros;
};

// How many inputs share a scale, whole blocks of codes, and how many groups an output has.
int64_t inputs_of_group(int64_t inputs, const Quantization& how);
int64_t groups_of_output(int64_t inputs, const Quantization& how);

// Chooses scales in bf16 for the groups of weight [outputs, inputs], any strides, from their
// extremes: without zero points from the number furthest from 0. Throws ConfigError for a group
// that is no multiple of kGroupStep. The numbers must be finite.
// extremes [outputs, 2] fp32: if `weight` has only some of the inputs that share a scale, the least
// and the largest number of all of them, the one at most 0, the other at least 0.
GroupScales choose_scales(const at::Tensor& weight, const Quantization& how,
                          const at::Tensor& extremes = {});

// Rounds each number to the nearest that its group can hold with these scales.
QuantizedMatrix quantize(const at::Tensor& weight, const Quantization& how,
                         const GroupScales& scales);
// The same with the scales that choose_scales() chooses.
QuantizedMatrix quantize(const at::Tensor& weight, const Quantization& how);

// The codes of a matrix as integers, [outputs, inputs] uint8: of int8 those of its signed codes, of
// fp8 the bits.
at::Tensor unpacked_codes(const QuantizedMatrix& matrix);

// Rows [begin, end) as numbers, rounded to `type` where that cannot hold them.
at::Tensor dequantized_rows(const QuantizedMatrix& matrix, int64_t begin, int64_t end,
                            at::ScalarType type);
// Rows of these indices, int64 of any shape, in the matrix's type: [.., inputs].
at::Tensor dequantized_rows(const QuantizedMatrix& matrix, const at::Tensor& indices);
at::Tensor dequantize(const QuantizedMatrix& matrix, at::ScalarType type);

// The fastest kernels that this CPU has for such codes.
const kernels::CodeKernels& code_kernels(Quantization::Type type);
// As kernels read it; valid as long as the matrix.
kernels::QuantizedWeight kernel_weight(const QuantizedMatrix& matrix);

}  // namespace colossal::ops
