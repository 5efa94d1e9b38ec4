// Products of few rows with a quantized weight, which is dequantized in registers. Each result is
// summed in a fixed order, which depends neither on the number of rows nor on the range of outputs
// that a call computes.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"

namespace colossal::ops::kernels {

// Inputs per block of codes. int8 and fp8: one byte each, in order. int4: 16 bytes, with number i
// in the low half of byte i and number i + 16 in the high half.
inline constexpr int64_t kCodeBlock = 32;

enum class ScaleType : uint8_t { bfloat16, float16, float32 };

// A weight [outputs, blocks * kCodeBlock], weight = (code - zero) * scale, where zero is 0 for int8
// and fp8. In fp32 the product is exact if the scale has 16 bits, since codes have at most 8 bits;
// with an fp32 scale it is rounded once.
struct QuantizedWeight {
  int64_t blocks;  // per row
  // Per group of weights that share a scale; a row's last group may be shorter.
  int64_t group_blocks;
  int64_t groups;      // per row
  const void* codes;   // int8: signed; int4: 0 .. 15; fp8: E4M3
  int64_t row_bytes;   // of the codes of one output
  const void* scales;  // [outputs, groups]
  ScaleType scale_type;
  const uint8_t* zeros;  // int4: [outputs, groups]; null: all are 8
};

// y [rows, outputs] = x w^T + bias. x [rows, blocks * kCodeBlock] is dense.
template <typename Real>
struct QuantizedProduct {
  int64_t rows;
  const Real* x;
  QuantizedWeight weight;
  const Real* bias;  // null: no bias
  void* y;           // Real, or bf16 (rounded to nearest) if y_is_bfloat16
  bool y_is_bfloat16;
  int64_t y_stride;
};

// Computes the columns [begin, end) of y.
template <typename Real>
using MultiplyQuantized = void (*)(const QuantizedProduct<Real>& product, int64_t begin,
                                   int64_t end);

// A product whose input is quantized too: x = code * row_scale, codes -127 .. 127.
struct Int8Product {
  int64_t rows;
  const int8_t* x;          // [rows, blocks * kCodeBlock]
  const float* row_scales;  // [rows]
  const int32_t* sums;      // [rows, groups]: sums of the codes of x over each group
  QuantizedWeight weight;   // int8
  const float* bias;        // null: no bias
  void* y;                  // fp32, or bf16 (rounded to nearest) if y_is_bfloat16
  bool y_is_bfloat16;
  int64_t y_stride;
};
using MultiplyInt8 = void (*)(const Int8Product& product, int64_t begin, int64_t end);

// Dequantizes the weights of one output, in order of inputs, to [blocks * kCodeBlock] numbers:
// fp32, or bf16 (rounded to nearest), as the name of the CodeKernels member says.
using DequantizeRow = void (*)(const QuantizedWeight& weight, int64_t output, void* to);

// Kernels for one type of codes.
struct CodeKernels {
  MultiplyQuantized<float> float32;
  MultiplyQuantized<double> float64;
  DequantizeRow to_float32, to_bfloat16;
};

struct QuantizedKernels {
  CodeKernels int8, int4, fp8;
  MultiplyInt8 int8_int8;
};

// Returns the kernels for an instruction set; null if the build or this CPU does not support it.
const QuantizedKernels* quantized_kernels(InstructionSet instruction_set);

// Returns the int8 kernel that uses the CPU's instruction for dot products of four numbers (AVX-512
// VNNI); null if the CPU does not have this instruction.
MultiplyInt8 native_int8_product();

// Returns the fastest kernels that this CPU supports.
const QuantizedKernels& quantized_kernels();

}  // namespace colossal::ops::kernels
