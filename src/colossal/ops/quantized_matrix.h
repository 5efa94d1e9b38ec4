// Quantized weights of linear layers: codes and, for each group of an output's inputs, a scale and,
// with int4, a zero point. weight = (code - zero) * scale; an fp8 code is itself a number (E4M3).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace colossal::ops {

namespace kernels {
struct CodeKernels;
struct QuantizedWeight;
}  // namespace kernels

// How a linear layer treats its input.
enum class Activations {
  as_given,  // not quantized; accumulates in fp32 (fp64 for fp64)
  int8,      // quantized to int8 with a scale per row; with int8 weights only
};

struct Quantization {
  enum class Type {
    int8,  // codes -128 .. 127, zero point 0; quantize() does not use -128
    int4,  // codes 0 .. 15
    fp8,   // E4M3 without infinities, up to 448
  };
  Type type = Type::int8;
  // Number of inputs that share a scale, a multiple of kGroupStep; an output's last group may be
  // shorter. 0: all inputs of an output.
  int64_t group = 0;
  bool zero_point = false;  // int4: each group has its own zero point; false: it is 8
  Activations activations = Activations::as_given;

  static constexpr int64_t kGroupStep = 32;

  bool operator==(const Quantization&) const = default;
};

// A quantized weight [outputs, inputs].
struct QuantizedMatrix {
  Quantization how;
  int64_t outputs = 0, inputs = 0;
  at::ScalarType type = at::kFloat;  // type of the rows that an embedding lookup returns
  at::Tensor codes;   // uint8 [outputs, bytes per row]; format: kernels/quantized_rows.h
  at::Tensor scales;  // bf16, fp16 or fp32 [outputs, groups]
  at::Tensor zeros;   // uint8 [outputs, groups]; undefined if there are no zero points

  int64_t bytes() const;
};

// Scales and zero points, in the format of QuantizedMatrix.
struct GroupScales {
  at::Tensor scales, zeros;
};

// Return the number of inputs that share a scale, a multiple of the block of codes, and the number
// of groups per output.
int64_t inputs_of_group(int64_t inputs, const Quantization& how);
int64_t groups_of_output(int64_t inputs, const Quantization& how);

// Chooses scales (bf16) for the groups of weight [outputs, inputs], of any strides, from each
// group's extremes; without zero points from its largest magnitude. The numbers must be finite.
// Throws ConfigError if how.group is not a multiple of kGroupStep.
// extremes: [outputs, 2] fp32. Pass it if `weight` has only some of the inputs that share a scale:
// the least (at most 0) and the largest (at least 0) number over all of these inputs. Requires
// how.group = 0.
GroupScales choose_scales(const at::Tensor& weight, const Quantization& how,
                          const at::Tensor& extremes = {});

// Rounds each number to the nearest that its group can represent with these scales.
QuantizedMatrix quantize(const at::Tensor& weight, const Quantization& how,
                         const GroupScales& scales);
// Quantizes with the scales that choose_scales() returns.
QuantizedMatrix quantize(const at::Tensor& weight, const Quantization& how);

// Returns the codes, one byte each, [outputs, inputs] uint8: the bits of the signed code for int8,
// of the E4M3 number for fp8.
at::Tensor unpacked_codes(const QuantizedMatrix& matrix);

// Returns rows [begin, end) dequantized, in `type` (rounded if necessary).
at::Tensor dequantized_rows(const QuantizedMatrix& matrix, int64_t begin, int64_t end,
                            at::ScalarType type);
// Returns the dequantized rows of these indices (int64, any shape) in matrix.type: [.., inputs].
at::Tensor dequantized_rows(const QuantizedMatrix& matrix, const at::Tensor& indices);
at::Tensor dequantize(const QuantizedMatrix& matrix, at::ScalarType type);

// Returns the fastest kernels for such codes that this CPU supports.
const kernels::CodeKernels& code_kernels(Quantization::Type type);
// Returns the matrix in the form that kernels read; valid as long as the matrix.
kernels::QuantizedWeight kernel_weight(const QuantizedMatrix& matrix);

}  // namespace colossal::ops
