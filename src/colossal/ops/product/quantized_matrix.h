// Quantized weights of linear layers in int8, int4 or fp8, for serving: how to quantize a weight
// and how to read it again. quantized_product.h multiplies by such weights.
//
// Each element of a weight [outputs, inputs] is stored as a code. The elements of a row (an output)
// form groups; the elements of a group share a scale and a zero point. An element is scale * (code
// - zero point). For int8 and fp8 the zero point is 0. An fp8 code is a number in E4M3 format.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace colossal::ops {

namespace kernels {
struct CodeKernels;
struct QuantizedWeight;
}  // namespace kernels

// What a linear layer with quantized weights does with its input.
enum class Activations {
  as_given,  // the input is not quantized; products accumulate in fp32 (in fp64 for fp64 inputs)
  int8,      // each row of the input is quantized to int8 with one scale; only for int8 weights
};

// The format of a quantized weight.
struct Quantization {
  enum class Type {
    int8,  // codes -128 .. 127, zero point 0. Scales of choose_scales() never give the code -128
    int4,  // codes 0 .. 15
    fp8,   // E4M3 without infinities, magnitudes up to 448
  };
  Type type = Type::int8;
  // Number of consecutive inputs per group, a multiple of kGroupStep. The last group of an output
  // may be shorter. 0: one group has all inputs of an output.
  int64_t group = 0;
  bool zero_point = false;  // for int4. True: each group has its own zero point; false: all are 8
  Activations activations = Activations::as_given;

  static constexpr int64_t kGroupStep = 32;  // inputs

  bool operator==(const Quantization&) const = default;
};

// A quantized weight [outputs, inputs]. All tensors are on one device.
struct QuantizedMatrix {
  Quantization how;
  int64_t outputs = 0, inputs = 0;
  at::ScalarType type = at::kFloat;  // type of the result of dequantized_rows(matrix, indices)
  at::Tensor codes;   // uint8 [outputs, bytes per row]; kCodeBlock in kernels/quantized_rows.h
                      // describes the order
  at::Tensor scales;  // bf16, fp16 or fp32 [outputs, groups]
  at::Tensor zeros;   // uint8 [outputs, groups]: zero points; undefined unless how.zero_point

  int64_t bytes() const;  // of codes, scales and zeros
};

// Returns a copy of the matrix on `device`; the matrix itself if it is there.
QuantizedMatrix to_device(const QuantizedMatrix& matrix, at::Device device);

// Scales and zero points of a weight: QuantizedMatrix::scales and QuantizedMatrix::zeros.
struct GroupScales {
  at::Tensor scales, zeros;
};

// Returns the number of inputs per group of a weight with `inputs` inputs: how.group, but at most
// `inputs` rounded up to a multiple of kGroupStep. If how.group is 0, it is this maximum.
int64_t inputs_of_group(int64_t inputs, const Quantization& how);
// Returns the number of groups per output.
int64_t groups_of_output(int64_t inputs, const Quantization& how);

// Chooses a scale (in bf16) and, if how.zero_point, a zero point for each group of a weight. With
// zero points, the codes span the range from the least to the largest of 0 and the group's
// elements. Without zero points, the group's element with the largest magnitude determines the
// scale: in int8 it gets the code 127 or -127, in fp8 the code of 448 or -448. In int4 it gets the
// code 0, so the scale is negative if the element is positive.
//   weight    [outputs, inputs] of any strides, on the CPU; must be finite
//   extremes  [outputs, 2] fp32: the least element (at most 0) and the largest element (at least 0)
//             of each output. Give it if `weight` is a shard with only some of the inputs of a
//             group; requires how.group = 0. Undefined: computed from `weight`
// Throws ConfigError if how.group is negative or not a multiple of kGroupStep.
GroupScales choose_scales(const at::Tensor& weight, const Quantization& how,
                          const at::Tensor& extremes = {});

// Quantizes weight [outputs, inputs]: rounds each element to the nearest value that its group can
// represent with the given scales and zero points. The result's field `type` is fp32; the caller
// may change it. Throws ConfigError as choose_scales() does, and InternalError if the sizes of
// `scales` do not match.
QuantizedMatrix quantize(const at::Tensor& weight, const Quantization& how,
                         const GroupScales& scales);
// Quantizes weight with the scales and zero points of choose_scales(weight, how).
QuantizedMatrix quantize(const at::Tensor& weight, const Quantization& how);

// The functions below read matrices on the CPU with our kernels, and on GPUs with LibTorch's
// operators.

// Returns the codes in the order of the inputs, one byte each: [outputs, inputs] uint8. A byte has
// the bits of the code: of a signed integer for int8, of an E4M3 number for fp8.
at::Tensor unpacked_codes(const QuantizedMatrix& matrix);

// Returns rows (outputs) [begin, end) of the weight, dequantized and rounded to `type`: [end -
// begin, inputs].
at::Tensor dequantized_rows(const QuantizedMatrix& matrix, int64_t begin, int64_t end,
                            at::ScalarType type);
// Returns the dequantized rows with the given indices, rounded to matrix.type: [.., inputs]. This
// is the lookup in a quantized embedding. indices: [..] int64. Throws InternalError if an index is
// out of range.
at::Tensor dequantized_rows(const QuantizedMatrix& matrix, const at::Tensor& indices);
// Returns all rows.
at::Tensor dequantize(const QuantizedMatrix& matrix, at::ScalarType type);

// Returns the fastest kernels that the CPU supports for codes of type `type`.
const kernels::CodeKernels& code_kernels(Quantization::Type type);
// Returns a description of the matrix for kernels. It points to the matrix's memory, so the matrix
// must outlive it.
kernels::QuantizedWeight kernel_weight(const QuantizedMatrix& matrix);

}  // namespace colossal::ops
