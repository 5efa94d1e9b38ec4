// Rotary position embedding (J. Su et al., "RoFormer", 2021), as transformers' Llama has it:
// channel i of a head turns with channel i + head_size / 2.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace colossal::ops {

struct RotaryOptions {
  double base = 0;  // theta; 0: no rotation
  // Llama 3.1's way to longer contexts: frequencies whose wavelength is beyond original_positions /
  // low_frequency_factor are divided by `factor`, those below original_positions /
  // high_frequency_factor stay, those between lie between.
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  int64_t original_positions = 0;  // 0: all frequencies are divided by `factor`

  bool operator==(const RotaryOptions&) const = default;
};

// [head_size / 2] fp64, in radians a position.
at::Tensor rotary_frequencies(const RotaryOptions& options, int64_t head_size);

// x [batch, sequence, heads, head_size] with the first `rotated_heads` turned by their position,
// positions [sequence] int64; the others are copied. Angles in fp64. Differentiable by x.
// InternalError: sizes that do not fit each other.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& frequencies,
                  int64_t rotated_heads);

}  // namespace colossal::ops
