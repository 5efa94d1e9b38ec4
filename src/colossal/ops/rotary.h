// Rotary position embedding (J. Su et al., "RoFormer", 2021), as in transformers: each pair of a
// head's channels is rotated by an angle that is proportional to the position. The factor of
// proportionality is the pair's frequency.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

struct RotaryOptions {
  // Methods that extend the context beyond `original_positions`, the number of positions in
  // pre-training. (`linear` and `proportional` do not read original_positions.)
  enum class Scaling {
    linear,    // all frequencies are divided by `factor`
    llama3,    // frequencies with a wavelength above original_positions / low_frequency_factor are
               // divided by `factor`; those with a wavelength below original_positions /
               // high_frequency_factor are kept; frequencies between these are interpolated
    dynamic,   // the base grows with the length of a sequence beyond original_positions (NTK)
    yarn,      // as llama3, but interpolates by the index of the pair (B. Peng et al., 2023)
    longrope,  // each frequency has its own divisor, and another one for sequences longer than
               // original_positions (Y. Ding et al., 2024)
    proportional,  // as linear, with the frequencies that channels = head_size would have; pairs
                   // from index channels / 2 on are not rotated
  };

  double base = 0;           // theta; 0: no rotation
  int64_t channels = 0;      // the first `channels` channels of a head are rotated; 0: all
  bool interleaved = false;  // pair i has channels 2 i and 2 i + 1; else i and i + channels / 2
  Scaling scaling = Scaling::linear;
  double factor = 1;
  int64_t original_positions = 0;
  double attention_factor = 0;  // see rotary_attention_factor(); 0: its default

  double low_frequency_factor = 1;  // llama3
  double high_frequency_factor = 4;

  // yarn: pairs that make more than beta_fast rotations within original_positions keep their
  // frequency; for pairs that make fewer than beta_slow it is divided by `factor`; for pairs
  // between these it is interpolated.
  double beta_fast = 32;
  double beta_slow = 1;
  // yarn: whether the range of interpolated pairs is extended to whole pairs.
  bool truncate = true;
  // yarn: if neither is 0, the default attention factor is m(mscale) / m(mscale_all_dim), where
  // m(s) = 0.1 s ln(factor) + 1; if one is 0, it is m(1). For factor <= 1, m is 1.
  double mscale = 0;
  double mscale_all_dim = 0;

  std::vector<double> short_factors, long_factors;  // longrope: [channels / 2]

  bool operator==(const RotaryOptions&) const = default;

  // Returns whether the frequencies depend on the length of the sequence.
  bool depends_on_length() const {
    return scaling == Scaling::dynamic || scaling == Scaling::longrope;
  }
};

// Returns the frequencies, [pairs] fp64, in radians per position. There are options.channels / 2
// pairs; for Scaling::proportional there are head_size / 2, of which those that are not rotated
// have frequency 0. length: the sequence's number of positions so far; used only if
// options.depends_on_length(). Throws InternalError if the number of longrope factors is not the
// number of pairs.
at::Tensor rotary_frequencies(const RotaryOptions& options, int64_t head_size, int64_t length = 0);

// Returns the factor by which cosines and sines are multiplied: options.attention_factor if it is
// above 0. Otherwise, for yarn, the default that is described at RotaryOptions::mscale; for
// longrope with factor > 1, sqrt(1 + ln(factor) / ln(original_positions)); in all other cases, 1.
double rotary_attention_factor(const RotaryOptions& options);

struct RotaryApplication {
  bool interleaved = false;
  double factor = 1;  // from rotary_attention_factor()
};

// Returns x [batch, sequence, heads, head_size] with the rotary embedding applied to the first 2 *
// frequencies.size(0) channels of the first `rotated_heads` heads. All other channels are copied.
// positions: int64, [sequence], or [batch, sequence] if positions differ between samples. Angles
// are computed in fp64. Differentiable in x. Throws InternalError if sizes do not match.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& frequencies,
                  int64_t rotated_heads, const RotaryApplication& turn = {});

}  // namespace colossal::ops
