// Quantized weights of linear layers. Each element of a weight has a code; each group of an
// output's inputs has a scale and, with int4, a zero point. element = (code - zero) * scale. An fp8
// code is itself a number (E4M3).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace colossal::ops {

namespace kernels {
struct CodeKernels;
struct QuantizedWeight;
}  // namespace kernels

// How a linear layer with quantized weights treats its input.
enum class Activations {
  as_given,  // not quantized; products accumulate in fp32 (fp64 for fp64)
  int8,      // quantized to int8 with a scale per row; only with int8 weights
};

struct Quantization {
  enum class Type {
    int8,  // codes -128 .. 127, zero point 0; with choose_scales(), -128 does not occur
    int4,  // codes 0 .. 15
    fp8,   // E4M3 without infinities, magnitudes up to 448; zero point 0
  };
  Type type = Type::int8;
  // Number of inputs that share a scale, a multiple of kGroupStep; an output's last group may be
  // shorter. 0: all inputs of an output.
  int64_t group = 0;
  bool zero_point = false;  // int4: whether each group has its own; otherwise it is 8
  Activations activations = Activations::as_given;

  static constexpr int64_t kGroupStep = 32;

  bool operator==(const Quantization&) const = default;
};

// A quantized weight [outputs, inputs].
struct QuantizedMatrix {
  Quantization how;
  int64_t outputs = 0, inputs = 0;
  at::ScalarType type = at::kFloat;  // in which dequantized_rows(matrix, indices) returns rows
  at::Tensor codes;   // uint8 [outputs, bytes per row]; format: kernels/quantized_rows.h
  at::Tensor scales;  // bf16, fp16 or fp32 [outputs, groups]
  at::Tensor zeros;   // uint8 [outputs, groups]; undefined if there are no zero points

  int64_t bytes() const;
};

// Scales and zero points, in the format of QuantizedMatrix.
struct GroupScales {
  at::Tensor scales, zeros;
};

// inputs_of_group() returns the number of inputs that share a scale, groups_of_output() the number
// of groups per output. With how.group = 0, inputs_of_group() rounds `inputs` up to a multiple of
// kGroupStep.
int64_t inputs_of_group(int64_t inputs, const Quantization& how);
int64_t groups_of_output(int64_t inputs, const Quantization& how);

// Chooses scales (bf16) and zero points for the groups of weight [outputs, inputs], which may have
// any strides: from each group's least and largest number or, without zero points, from its largest
// magnitude. The numbers must be finite. Throws ConfigError if how.group is negative or not a
// multiple of kGroupStep. extremes: [outputs, 2] fp32, for a weight with only some of the inputs
// that share a scale: the least number (at most 0) and the largest (at least 0) of each output over
// all inputs. Requires how.group = 0.
GroupScales choose_scales(const at::Tensor& weight, const Quantization& how,
                          const at::Tensor& extremes = {});

// Rounds each number to the nearest that its group can represent with these scales and zero points.
QuantizedMatrix quantize(const at::Tensor& weight, const Quantization& how,
                         const GroupScales& scales);
// Quantizes with the scales that choose_scales() returns.
QuantizedMatrix quantize(const at::Tensor& weight, const Quantization& how);

// Returns the codes, one byte each, [outputs, inputs] uint8. For int8 a byte has the bits of the
// signed code, for fp8 those of the E4M3 number.
at::Tensor unpacked_codes(const QuantizedMatrix& matrix);

// Returns rows [begin, end) as numbers, [end - begin, inputs], rounded to `type`.
at::Tensor dequantized_rows(const QuantizedMatrix& matrix, int64_t begin, int64_t end,
                            at::ScalarType type);
// Returns the rows with these indices (int64, of any shape [..]) as numbers, [.., inputs], in
// matrix.type. Throws InternalError if an index is out of range.
at::Tensor dequantized_rows(const QuantizedMatrix& matrix, const at::Tensor& indices);
at::Tensor dequantize(const QuantizedMatrix& matrix, at::ScalarType type);

// Returns the fastest kernels for codes of this type that the CPU supports.
const kernels::CodeKernels& code_kernels(Quantization::Type type);
// Returns the matrix in the form that kernels read. It points to the matrix's memory and is valid
// as long as the matrix exists.
kernels::QuantizedWeight kernel_weight(const QuantizedMatrix& matrix);

}  // namespace colossal::ops
