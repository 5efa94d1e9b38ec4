// Scales of quantized weights. Included by the sources that are compiled for one instruction set
// each, as block.h is.
#pragma once

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/quantized_rows.h"

namespace colossal::ops::kernels {
namespace {

// Of finite numbers: the bits of an fp32 number, moved, are those of the number times 2^-112,
// subnormal ones included.
[[gnu::always_inline]] inline float from_float16(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value & 0x7FFF) << 13;
  const float magnitude = __builtin_bit_cast(float, bits) * 0x1p112F;
  return value & 0x8000 ? -magnitude : magnitude;
}

[[gnu::always_inline]] inline float scale_at(const QuantizedWeight& weight, int64_t place) {
  if (weight.scale_type == ScaleType::float32) {
    return static_cast<const float*>(weight.scales)[place];
  }
  const uint16_t bits = static_cast<const uint16_t*>(weight.scales)[place];
  return weight.scale_type == ScaleType::bfloat16 ? from_bfloat16(bits) : from_float16(bits);
}

}  // namespace
}  // namespace colossal::ops::kernels
