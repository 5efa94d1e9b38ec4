// Rotary position embedding (J. Su et al., "RoFormer", 2021), as transformers has it: pairs of a
// head's channels turn by an angle that grows with the position.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

struct RotaryOptions {
  // Ways to contexts longer than those of the first training, `original_positions` (which linear
  // and proportional do not need).
  enum class Scaling {
    linear,        // all frequencies are divided by `factor`; 1: they stay
    llama3,        // those whose wavelength is beyond original_positions / low_frequency_factor are
                   // divided by `factor`, those below original_positions / high_frequency_factor
                   // stay, those between lie between
    dynamic,       // the base grows with a sequence longer than original_positions (NTK)
    yarn,          // as llama3, over channels instead of frequencies (B. Peng et al., 2023)
    longrope,      // each has a divisor of its own, another one for sequences longer than
                   // original_positions (Y. Ding et al., 2024)
    proportional,  // as linear, of a head that turns whole, but pairs beyond `channels` by nothing
  };

  double base = 0;           // theta; 0: no rotation
  int64_t channels = 0;      // of a head the first so many turn, the others stay; 0: all
  bool interleaved = false;  // channel 2 i turns with 2 i + 1, else i with i + channels / 2
  Scaling scaling = Scaling::linear;
  double factor = 1;
  int64_t original_positions = 0;
  double attention_factor = 0;  // of cosines and sines; 0: the scaling's own, see below

  double low_frequency_factor = 1;  // llama3
  double high_frequency_factor = 4;

  double fast_turns = 32;  // yarn: pairs that turn as often within original_positions stay ("beta
  double slow_turns = 1;   // fast"), those that turn less than this are divided ("beta slow")
  bool truncate = true;    // borders between those are rounded to whole channels
  double mscale = 0;  // the attention factor is the quotient of what follows from these; either
  double mscale_all_dim = 0;  // is 0: it follows from `factor`

  std::vector<double> short_factors, long_factors;  // longrope: [channels / 2]

  bool operator==(const RotaryOptions&) const = default;

  // Whether frequencies depend on the length of a sequence.
  bool depends_on_length() const {
    return scaling == Scaling::dynamic || scaling == Scaling::longrope;
  }
};

// [pairs] fp64, in radians a position; length: positions of the sequence so far, for options that
// depend on it. InternalError: longrope's factors are not as many as pairs.
at::Tensor rotary_frequencies(const RotaryOptions& options, int64_t head_size, int64_t length = 0);

// Returns the factor of cosines and sines: the options' own if given, else yarn's 0.1 ln(factor) +
// 1 or longrope's sqrt(1 + ln(factor) / ln(original_positions)), else 1.
double rotary_attention_factor(const RotaryOptions& options);

struct RotaryTurn {
  bool interleaved = false;
  double factor = 1;  // of cosines and sines
};

// x [batch, sequence, heads, head_size] with the first channels, two for each frequency, of the
// first `rotated_heads` turned by their position; all else is copied. positions [sequence], or
// [batch, sequence] where rows have their own, int64. Angles in fp64. Differentiable by x.
// InternalError: sizes that do not fit each other.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& frequencies,
                  int64_t rotated_heads, const RotaryTurn& turn = {});

}  // namespace colossal::ops
