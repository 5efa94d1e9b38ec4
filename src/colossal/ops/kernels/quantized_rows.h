// Products of few rows with a quantized weight, whose numbers are made in registers as they are
// multiplied. Each row's numbers are sums in one fixed order, as those of few_rows.h.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"

namespace colossal::ops::kernels {

// Inputs of which codes lie together: of int8 and fp8 one byte each, in order; of int4 16 bytes,
// number i in the low half of byte i, number i + 16 in the high half.
inline constexpr int64_t kCodeBlock = 32;

enum class ScaleType : uint8_t { bfloat16, float16, float32 };

// A weight [outputs, blocks * kCodeBlock]: number = (code - zero) * scale, rounded to fp32 at most
// once: codes have at most 8 bits, so that with scales of 16 bits the product is exact.
struct QuantizedWeight {
  int64_t blocks;        // of a row
  int64_t group_blocks;  // of a group, which has one scale; a row's last group may be shorter
  int64_t groups;        // of a row
  const void* codes;     // int8: signed; int4: 0 .. 15; fp8: E4M3
  int64_t row_bytes;
  const void* scales;  // [outputs, groups]
  ScaleType scale_type;
  const uint8_t* zeros;  // [outputs, groups]: of int4; null: 8
};

// y [rows, outputs] = x w^T + bias, x [rows, blocks * kCodeBlock] dense.
template <typename Real>
struct QuantizedProduct {
  int64_t rows;
  const Real* x;
  QuantizedWeight weight;
  const Real* bias;  // null: none
  void* y;           // Real, or bf16: the nearest
  bool y_is_bfloat16;
  int64_t y_stride;
};

// Outputs [begin, end).
template <typename Real>
using MultiplyQuantized = void (*)(const QuantizedProduct<Real>& product, int64_t begin,
                                   int64_t end);

// x quantized too: x = code * row_scale, codes of -127 .. 127.
struct Int8Product {
  int64_t rows;
  const int8_t* x;          // [rows, blocks * kCodeBlock]
  const float* row_scales;  // [rows]
  const int32_t* sums;      // [rows, groups]: of the codes of x
  QuantizedWeight weight;   // int8
  const float* bias;        // null: none
  void* y;                  // fp32, or bf16: the nearest
  bool y_is_bfloat16;
  int64_t y_stride;
};
using MultiplyInt8 = void (*)(const Int8Product& product, int64_t begin, int64_t end);

// The numbers of one output, in order, to [blocks * kCodeBlock] of fp32, or of bf16 as the nearest.
using DequantizeRow = void (*)(const QuantizedWeight& weight, int64_t output, void* to);

// Of one form of codes.
struct CodeKernels {
  MultiplyQuantized<float> float32;
  MultiplyQuantized<double> float64;
  DequantizeRow to_float32, to_bfloat16;
};

struct QuantizedKernels {
  CodeKernels int8, int4, fp8;
  MultiplyInt8 int8_int8;
};

// Null where the build or this CPU has none such.
const QuantizedKernels* quantized_kernels(InstructionSet instruction_set);

// Int8 by the CPU's own products of four (AVX-512 VNNI); null where there are none.
MultiplyInt8 native_int8_product();

// The fastest that this CPU has.
const QuantizedKernels& quantized_kernels();

}  // namespace colossal::ops::kernels
