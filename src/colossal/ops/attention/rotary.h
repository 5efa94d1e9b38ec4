// Rotary position embedding (J. Su et al., "RoFormer", 2021), with the variants of Hugging Face
// transformers. Each pair of channels of a head is rotated by the angle position * frequency, where
// each pair has its own frequency. Usage: rotary_frequencies() once, or for each forward pass if
// the frequencies depend on the length of the sequence; then rotary() in each layer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

// The "rope_parameters" of a model's config.json. Without scaling, the frequency of pair i is
// base^(-2 i / channels), in radians per position, where `channels` is the number of channels of a
// head that are rotated.
struct RotaryOptions {
  // How the frequencies are changed, so that a model can read longer contexts than in pre-training.
  // The wavelength of a pair is 2 pi / frequency, in positions.
  enum class Scaling {
    // All frequencies are divided by `factor`. With the default factor 1, there is no scaling.
    linear,
    // Frequencies with a wavelength above original_positions / low_frequency_factor are divided by
    // `factor`. Frequencies with a wavelength below original_positions / high_frequency_factor are
    // kept. Frequencies between these limits are interpolated.
    llama3,
    // The base grows with the length of the sequence, once that exceeds original_positions (NTK):
    // it is multiplied by (factor * length / original_positions - (factor - 1))^(channels /
    // (channels - 2)). Frequencies are not divided by `factor`.
    dynamic,
    // Low frequencies are divided by `factor`, high frequencies are kept, and frequencies between
    // them are interpolated by the index of the pair (B. Peng et al., 2023). The comments of
    // beta_fast and truncate below say where the limits are.
    yarn,
    // The frequency of pair i is divided by short_factors[i], or by long_factors[i] for sequences
    // longer than original_positions (Y. Ding et al., 2024).
    longrope,
    // Pair i has the frequency base^(-2 i / head_size) / factor. Only the first channels / 2 pairs
    // are rotated.
    proportional,
  };

  double base = 0;  // theta; 0: the model has no rotary embedding
  // Number of channels of a head that are rotated: the first ones, or for `proportional` those of
  // the first channels / 2 pairs. 0: all; in the formulas, it is then the head size.
  int64_t channels = 0;
  // Which channels form pair i. True: 2 i and 2 i + 1. False: i and i + number of pairs. There are
  // channels / 2 pairs, for `proportional` head_size / 2.
  bool interleaved = false;
  Scaling scaling = Scaling::linear;
  // Divisor of frequencies for linear, llama3, yarn and proportional. `dynamic` uses it in the
  // formula of the base, and longrope in rotary_attention_factor() only.
  double factor = 1;
  int64_t original_positions = 0;  // context of pre-training; not for linear and proportional
  double attention_factor = 0;     // above 0: result of rotary_attention_factor()

  double low_frequency_factor = 1;   // for llama3
  double high_frequency_factor = 4;  // for llama3

  // For yarn. A pair makes original_positions / wavelength rotations within the original context.
  // Pairs with more than beta_fast rotations keep their frequency. For pairs with fewer than
  // beta_slow rotations, the frequency is divided by `factor`.
  double beta_fast = 32;
  double beta_slow = 1;
  // For yarn. A formula gives the index of the pair that makes exactly beta_fast rotations, and of
  // the pair that makes exactly beta_slow rotations; the indices may be fractions. Pairs between
  // these two indices are interpolated. True: the index for beta_fast is rounded down first, and
  // the index for beta_slow is rounded up.
  bool truncate = true;
  // For yarn: determine the attention factor; see rotary_attention_factor().
  double mscale = 0;
  double mscale_all_dim = 0;

  std::vector<double> short_factors, long_factors;  // for longrope: [channels / 2]

  bool operator==(const RotaryOptions&) const = default;

  // Returns whether the frequencies depend on the length of the sequence.
  bool depends_on_length() const {
    return scaling == Scaling::dynamic || scaling == Scaling::longrope;
  }
};

// Returns the frequencies of the pairs, [pairs] fp64 on the CPU, in radians per position. The
// number of pairs is options.channels / 2 (head_size / 2 if options.channels is 0). For
// Scaling::proportional it is head_size / 2, and pairs that are not rotated have frequency 0.
// options.base must be above 0. length: number of positions of the sequence so far; used only if
// options.depends_on_length().
// Throws InternalError if the number of longrope factors is not the number of pairs.
at::Tensor rotary_frequencies(const RotaryOptions& options, int64_t head_size, int64_t length = 0);

// Returns the attention factor, by which cosines and sines are multiplied. It is:
//   options.attention_factor, if that is above 0;
//   for yarn, m(mscale) / m(mscale_all_dim), or m(1) if one of the two is 0, where m(s) = 0.1 s
//     ln(factor) + 1, but m(s) = 1 for factor <= 1;
//   for longrope with factor > 1, sqrt(1 + ln(factor) / ln(original_positions));
//   otherwise 1.
double rotary_attention_factor(const RotaryOptions& options);

// Options of rotary().
struct RotaryApplication {
  bool interleaved = false;  // as RotaryOptions::interleaved
  double factor = 1;         // from rotary_attention_factor()
};

// Applies the rotary embedding to the first `rotated_heads` heads of x, and returns the result. In
// fused queries, keys and values, the values come last and are not rotated.
//   x            [batch, sequence, heads, head_size]
//   positions    int64 [sequence]; or [batch, sequence] if positions differ between samples
//   frequencies  [pairs], from rotary_frequencies(). The first 2 * pairs channels of a head are
//                rotated; the other channels are copied
// Angles are computed in fp64. Differentiable in x. Throws InternalError if sizes do not match.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& frequencies,
                  int64_t rotated_heads, const RotaryApplication& turn = {});

}  // namespace colossal::ops
