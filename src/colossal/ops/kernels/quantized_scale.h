// Helpers of the kernels of quantized_rows.h: read scales, and store results of products. Included
// only by source files that are compiled for one instruction set each, as block.h is.
#pragma once

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/quantized_rows.h"

namespace colossal::ops::kernels {
namespace {

// Converts the bits of a finite fp16 number to fp32. (Exponent and fraction, shifted to their
// places in an fp32 number, are the magnitude times 2^-112, also for subnormal fp16 numbers.)
[[gnu::always_inline]] inline float from_float16(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value & 0x7FFF) << 13;
  const float magnitude = __builtin_bit_cast(float, bits) * 0x1p112F;
  return value & 0x8000 ? -magnitude : magnitude;
}

// Returns weight.scales[place] as fp32. The scale of group `group` of output `output` is at place =
// output * weight.groups + group.
[[gnu::always_inline]] inline float scale_at(const QuantizedWeight& weight, int64_t place) {
  if (weight.scale_type == ScaleType::float32) {
    return static_cast<const float*>(weight.scales)[place];
  }
  const uint16_t bits = static_cast<const uint16_t*>(weight.scales)[place];
  return weight.scale_type == ScaleType::bfloat16 ? from_bfloat16(bits) : from_float16(bits);
}

// Stores `value` to element `place` of product.y: as bf16, rounded to nearest, if
// product.y_is_bfloat16; else as a Real. Product: QuantizedProduct or Int8Product.
template <typename Product, typename Real>
[[gnu::always_inline]] inline void store_result(const Product& product, int64_t place, Real value) {
  if (product.y_is_bfloat16) {
    const auto bits = __builtin_bit_cast(uint32_t, static_cast<float>(value));
    const uint32_t nearest = value != value ? 0x7FC00000 : bits + 0x7FFF + (bits >> 16 & 1);
    static_cast<uint16_t*>(product.y)[place] = static_cast<uint16_t>(nearest >> 16);
  } else {
    static_cast<Real*>(product.y)[place] = value;
  }
}

}  // namespace
}  // namespace colossal::ops::kernels
