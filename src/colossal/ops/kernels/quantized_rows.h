// Kernels of ops/product/quantized_product.h: products of few rows with a quantized weight, which
// is dequantized in registers, and dequantization of rows. Each result of a product is summed in a
// fixed order, which depends neither on the number of rows nor on the range of outputs that a call
// computes.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"

namespace colossal::ops::kernels {

// Inputs per block of codes. The codes of an output are stored block by block; the last block is
// padded. A block of int8 or fp8 codes has one byte per input, in order. A block of int4 codes has
// 16 bytes: the code of input i is in the low half of byte i, that of input i + 16 in the high
// half.
inline constexpr int64_t kCodeBlock = 32;

enum class ScaleType : uint8_t { bfloat16, float16, float32 };

// A quantized weight [outputs, padded inputs], where padded inputs = blocks * kCodeBlock. An
// element is (code - zero point) * scale, where the zero point is 0 for int8 and fp8. In fp32, an
// element is exact if the scale has 16 bits, since codes have at most 8 bits. With an fp32 scale it
// is rounded once.
struct QuantizedWeight {
  int64_t blocks;        // blocks per output
  int64_t group_blocks;  // blocks per group; an output's last group may have fewer
  int64_t groups;        // groups per output; the elements of a group share a scale
  const void* codes;     // int8: signed; int4: 0 .. 15; fp8: E4M3
  int64_t row_bytes;     // bytes of the codes of one output
  const void* scales;    // [outputs, groups] of scale_type
  ScaleType scale_type;
  const uint8_t* zeros;  // int4: zero points [outputs, groups]; null: all are 8
};

// The operands of y = x weight^T + bias.
template <typename Real>
struct QuantizedProduct {
  int64_t rows;
  const Real* x;  // [rows, padded inputs], contiguous; zeros after the inputs
  QuantizedWeight weight;
  const Real* bias;  // [outputs]; null: no bias
  void* y;           // [rows, outputs] of type Real; of bf16 (rounded to nearest) if y_is_bfloat16
  bool y_is_bfloat16;
  int64_t y_stride;  // distance of rows of y, in elements
};

// Computes the columns (outputs) [begin, end) of y.
template <typename Real>
using MultiplyQuantized = void (*)(const QuantizedProduct<Real>& product, int64_t begin,
                                   int64_t end);

// Rows x that are rounded to int8, and the arrays for the results. An element of x is approximated
// by code * scale of the row, with codes -127 .. 127.
struct Int8Rounding {
  int64_t inputs;  // elements per row
  const void* x;   // [rows, inputs], contiguous, of fp32; of bf16 if x_is_bfloat16
  bool x_is_bfloat16;
  int64_t depth;       // `inputs` rounded up to whole blocks of codes
  int64_t group_size;  // inputs per group of the weight, a multiple of kCodeBlock
  int8_t* codes;       // [rows, depth]; becomes zero after the inputs
  float* scales;       // [rows]: the largest magnitude of the row / 127
  // [rows, groups], with groups = depth / group_size, rounded up: the sum of the codes of each
  // group.
  int32_t* sums;
};
// Rounds the rows [begin, end), to nearest with ties to even: writes their codes, scales and sums.
using RoundToInt8 = void (*)(const Int8Rounding& rounding, int64_t begin, int64_t end);

// The operands of y = x weight^T + bias, where x is quantized, too: an element of x is code * scale
// of its row, with codes -127 .. 127.
struct Int8Product {
  int64_t rows;
  const int8_t* x;          // codes, [rows, padded inputs], contiguous; zeros after the inputs
  const float* row_scales;  // scale of each row of x, [rows]
  // [rows, groups]: sum of the codes of x over each group of the weight. Only the kernel of
  // native_int8_product() reads them: its instruction needs unsigned codes of the weight, so it
  // adds 128 to these codes and subtracts 128 * sum from the result.
  const int32_t* sums;
  QuantizedWeight weight;  // int8
  const float* bias;       // [outputs]; null: no bias
  void* y;                 // [rows, outputs] of fp32; of bf16 (rounded to nearest) if y_is_bfloat16
  bool y_is_bfloat16;
  int64_t y_stride;  // distance of rows of y, in elements
};
// Computes the columns (outputs) [begin, end) of y.
using MultiplyInt8 = void (*)(const Int8Product& product, int64_t begin, int64_t end);

// Dequantizes the elements of output `output`, in the order of the inputs, and writes them to `to`
// [padded inputs], an array of fp32 or bf16 (CodeKernels).
using DequantizeRow = void (*)(const QuantizedWeight& weight, int64_t output, void* to);

// The kernels for one type of codes.
struct CodeKernels {
  MultiplyQuantized<float> float32;
  MultiplyQuantized<double> float64;
  DequantizeRow to_float32, to_bfloat16;  // type of `to`; bf16 is rounded to nearest
};

// The kernels of one instruction set.
struct QuantizedKernels {
  CodeKernels int8, int4, fp8;
  RoundToInt8 to_int8;
  MultiplyInt8 int8_int8;  // int8 weights and int8 input
};

// Returns the kernels for an instruction set; null if the build or this CPU does not support it.
const QuantizedKernels* quantized_kernels(InstructionSet instruction_set);

// Returns the kernel for int8_int8 that uses the CPU's instruction for dot products of four int8
// numbers (AVX-512 VNNI). Returns null if the CPU does not have this instruction.
MultiplyInt8 native_int8_product();

// Returns the fastest kernels that this CPU supports.
const QuantizedKernels& quantized_kernels();

}  // namespace colossal::ops::kernels
