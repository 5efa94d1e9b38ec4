// Rotary position embedding (J. Su et al., "RoFormer", 2021), as in transformers: pairs of a head's
// channels are rotated by an angle proportional to the position.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

struct RotaryOptions {
  // Methods of context extension beyond `original_positions`, the context of pre-training (which
  // linear and proportional do not use).
  enum class Scaling {
    linear,    // all frequencies are divided by `factor`
    llama3,    // frequencies of a wavelength above original_positions / low_frequency_factor are
               // divided by `factor`, below original_positions / high_frequency_factor kept;
               // those between are interpolated
    dynamic,   // the base grows with the length of a sequence beyond original_positions (NTK)
    yarn,      // as llama3, interpolating by channel, not by frequency (B. Peng et al., 2023)
    longrope,  // each frequency has its own divisor, and a second one for sequences longer than
               // original_positions (Y. Ding et al., 2024)
    proportional,  // as linear, with the frequencies of channels = head_size; pairs beyond
                   // `channels` are not rotated
  };

  double base = 0;           // theta; 0: no rotation
  int64_t channels = 0;      // the first `channels` channels of a head are rotated; 0: all
  bool interleaved = false;  // pairs channels (2 i, 2 i + 1), else (i, i + channels / 2)
  Scaling scaling = Scaling::linear;
  double factor = 1;
  int64_t original_positions = 0;
  double attention_factor = 0;  // on cosines and sines; 0: rotary_attention_factor()'s default

  double low_frequency_factor = 1;  // llama3
  double high_frequency_factor = 4;

  // yarn: pairs that make more than beta_fast rotations within original_positions ("beta fast")
  // keep their frequency; pairs that make fewer than beta_slow ("beta slow") are divided by
  // `factor`.
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;  // yarn: rounds both borders to whole pairs
  // yarn, if neither is 0: the attention factor is m(mscale) / m(mscale_all_dim), with m(s) = 0.1 s
  // ln(factor) + 1.
  double mscale = 0;
  double mscale_all_dim = 0;

  std::vector<double> short_factors, long_factors;  // longrope: [channels / 2]

  bool operator==(const RotaryOptions&) const = default;

  // Returns whether the frequencies depend on the length of the sequence.
  bool depends_on_length() const {
    return scaling == Scaling::dynamic || scaling == Scaling::longrope;
  }
};

// Returns the frequencies, [pairs] fp64, in radians per position. length: the sequence's positions
// so far, if options.depends_on_length(). Throws InternalError if the number of longrope factors is
// not the number of pairs.
at::Tensor rotary_frequencies(const RotaryOptions& options, int64_t head_size, int64_t length = 0);

// Returns the factor on cosines and sines: options.attention_factor if not 0; else for yarn the
// quotient from mscale and mscale_all_dim if neither is 0, or 0.1 ln(factor) + 1; for longrope
// sqrt(1 + ln(factor) / ln(original_positions)); else 1.
double rotary_attention_factor(const RotaryOptions& options);

struct RotaryApplication {
  bool interleaved = false;
  double factor = 1;  // on cosines and sines
};

// Returns x [batch, sequence, heads, head_size] with the rotary embedding applied to the first 2 *
// frequencies.size(0) channels of the first `rotated_heads` heads; all else is copied. positions:
// [sequence], or [batch, sequence] if positions differ between rows; int64. Angles are computed in
// fp64. Differentiable in x. Throws InternalError if sizes do not match.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& frequencies,
                  int64_t rotated_heads, const RotaryApplication& turn = {});

}  // namespace colossal::ops
