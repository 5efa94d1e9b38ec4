#include "colossal/ops/attention/rotary.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "colossal/base/error.h"
#include "colossal/ops/fallback/aten_fallback.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using Scaling = RotaryOptions::Scaling;

// Returns the frequency of a pair without scaling.
double plain_frequency(double base, int64_t pair, int64_t channels) {
  return std::pow(base, -2.0 * static_cast<double>(pair) / static_cast<double>(channels));
}

double llama3_frequency(const RotaryOptions& options, double frequency) {
  const double turns =  // number of rotations within the context of pre-training
      static_cast<double>(options.original_positions) * frequency / (2 * std::numbers::pi);
  if (turns < options.low_frequency_factor) return frequency / options.factor;
  if (turns > options.high_frequency_factor) return frequency;
  const double share = (turns - options.low_frequency_factor) /
                       (options.high_frequency_factor - options.low_frequency_factor);
  return (1 - share) * frequency / options.factor + share * frequency;
}

// Returns the base for a sequence of `length` positions. It is options.base for sequences up to
// original_positions.
double dynamic_base(const RotaryOptions& options, int64_t channels, int64_t length) {
  const auto original = static_cast<double>(options.original_positions);
  const double ratio = std::max(static_cast<double>(length), original) / original;
  const auto size = static_cast<double>(channels);
  return options.base * std::pow(options.factor * ratio - (options.factor - 1), size / (size - 2));
}

// The interpolation of yarn. share() is the weight of the frequency that is divided by `factor`: 0
// up to pair low_, 1 from pair high_ on.
class YarnRamp {
 public:
  YarnRamp(const RotaryOptions& options, int64_t channels) {
    const auto border = [&](double turns) {
      const auto original = static_cast<double>(options.original_positions);
      return static_cast<double>(channels) * std::log(original / (turns * 2 * std::numbers::pi)) /
             (2 * std::log(options.base));
    };
    double low = border(options.beta_fast), high = border(options.beta_slow);
    if (options.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low_ = std::max(low, 0.0);
    high_ = std::min(high, static_cast<double>(channels - 1));
    if (low_ == high_) high_ += 0.001;
  }
  double share(int64_t pair) const {
    return std::clamp((static_cast<double>(pair) - low_) / (high_ - low_), 0.0, 1.0);
  }

 private:
  double low_, high_;
};

// Returns m(mscale) of rotary_attention_factor().
double yarn_magnitude(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

const std::vector<double>& longrope_factors(const RotaryOptions& options, int64_t length) {
  return length > options.original_positions ? options.long_factors : options.short_factors;
}

struct Turns {
  at::Tensor cosines, sines;  // [positions.., pairs], times the attention factor
};

// Computes cosines and sines from angles in fp64, rounded to `type`. backward: negates the sines,
// for the transposed rotation that gives gradients.
Turns turns_of(const at::Tensor& positions, const at::Tensor& frequencies, at::ScalarType type,
               double factor, bool backward) {
  const at::Tensor angles = positions.unsqueeze(-1) * frequencies;
  const at::Tensor cosines = angles.cos();
  if (factor != 1) cosines.mul_(factor);
  return {cosines.to(type), angles.sin().mul_(backward ? -factor : factor).to(type)};
}

// Compares frequencies by value, because each layer has its own tensor of them.
bool have_same_bytes(const at::Tensor& one, const at::Tensor& other) {
  return one.defined() && one.scalar_type() == other.scalar_type() &&
         one.numel() == other.numel() &&
         std::memcmp(one.const_data_ptr(), other.const_data_ptr(), one.nbytes()) == 0;
}

// Returns turns_of(). If no gradients are recorded and there are few positions, the layers of a
// step share the result, which the thread caches. A cached result is for the same tensor of
// positions.
Turns shared_turns(const at::Tensor& positions, const at::Tensor& frequencies, at::ScalarType type,
                   double factor) {
  constexpr int64_t kFewPositions = 64;
  struct Last {
    at::Tensor positions, frequencies;
    at::ScalarType type = at::kFloat;
    double factor = 0;
    Turns turns;
  };
  if (at::GradMode::is_enabled() || positions.numel() > kFewPositions) {
    return turns_of(positions, frequencies, type, factor, /*backward=*/false);
  }
  thread_local Last last;
  if (!last.positions.is_same(positions) || !have_same_bytes(last.frequencies, frequencies) ||
      last.type != type || last.factor != factor) {
    last = {positions, frequencies, type, factor,
            turns_of(positions, frequencies, type, factor, /*backward=*/false)};
  }
  return last.turns;
}

at::Tensor rotary_cpu(const at::Tensor& given, const at::Tensor& positions,
                      const at::Tensor& frequencies, int64_t rotated_heads, bool interleaved,
                      double factor, bool backward) {
  const at::Tensor x = given.contiguous();
  const at::ScalarType type_of_turns = compute_type(x.scalar_type());
  const Turns turns = backward ? turns_of(positions, frequencies, type_of_turns, factor, backward)
                               : shared_turns(positions, frequencies, type_of_turns, factor);
  at::Tensor y = at::empty_like(x);
  const int64_t rows = x.size(0) * x.size(1), rows_with_turns = positions.numel();
  const kernels::RotatedHeads heads{.count = rotated_heads,
                                    .size = x.size(3),
                                    .half = frequencies.size(0),
                                    .interleaved = interleaved};
  const int64_t row_bytes = x.size(2) * x.size(3) * x.element_size();
  const int64_t rotated_bytes = rotated_heads * x.size(3) * x.element_size();
  const int64_t turn_bytes = heads.half * turns.cosines.element_size();
  const auto type = element_type(x.scalar_type());
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  const auto* cosines = static_cast<const char*>(turns.cosines.const_data_ptr());
  const auto* sines = static_cast<const char*>(turns.sines.const_data_ptr());
  auto* to = static_cast<char*>(y.mutable_data_ptr());
  const int64_t grain = std::max<int64_t>(1, kElementsPerThread / (x.size(2) * x.size(3) + 1));
  parallel_for(0, rows, grain, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t turn = row % rows_with_turns * turn_bytes, begin = row * row_bytes;
      kernels::vector_kernels().rotate(from + begin, cosines + turn, sines + turn, to + begin, type,
                                       heads);
      std::copy(from + begin + rotated_bytes, from + begin + row_bytes, to + begin + rotated_bytes);
    }
  });
  return y;
}

// Allocates what rotary_cpu() allocates.
at::Tensor rotary_meta(const at::Tensor& given, const at::Tensor& positions,
                       const at::Tensor& frequencies, int64_t, bool, double factor, bool backward) {
  const at::Tensor x = given.contiguous();
  const Turns turns =
      turns_of(positions, frequencies, compute_type(x.scalar_type()), factor, backward);
  return at::empty_like(x);
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def(
      "rotary(Tensor x, Tensor positions, Tensor frequencies, int rotated_heads, bool interleaved, "
      "float factor, bool backward) -> Tensor");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("rotary", rotary_cpu);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("rotary", aten_fallback::rotary);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("rotary", rotary_meta);
}

at::Tensor turned(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& frequencies,
                  int64_t rotated_heads, const RotaryApplication& turn, bool backward) {
  static const auto op = find_operator<decltype(rotary_cpu)>("colossal::rotary");
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return op.call(x, positions, frequencies, rotated_heads, turn.interleaved, turn.factor, backward);
}

struct Rotary : torch::autograd::Function<Rotary> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& positions, const at::Tensor& frequencies,
                            int64_t rotated_heads, const RotaryApplication& turn) {
    // Saves these small tensors, not the cosines and sines, of which each layer would save its own.
    context->save_for_backward({positions, frequencies});
    context->saved_data["rotated_heads"] = rotated_heads;
    context->saved_data["interleaved"] = turn.interleaved;
    context->saved_data["factor"] = turn.factor;
    return turned(x, positions, frequencies, rotated_heads, turn, /*backward=*/false);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const RotaryApplication turn{data["interleaved"].toBool(), data["factor"].toDouble()};
    return {turned(gradients[0], saved[0], saved[1], data["rotated_heads"].toInt(), turn,
                   /*backward=*/true),
            {},
            {},
            {},
            {}};
  }
};

}  // namespace

at::Tensor rotary_frequencies(const RotaryOptions& options, int64_t head_size, int64_t length) {
  const int64_t channels = options.channels > 0 ? options.channels : head_size;
  const bool turns_whole = options.scaling == Scaling::proportional;
  const int64_t exponents = turns_whole ? head_size : channels;
  const int64_t pairs = exponents / 2;
  const double base =
      options.scaling == Scaling::dynamic ? dynamic_base(options, channels, length) : options.base;
  const std::vector<double>& factors = longrope_factors(options, length);
  COLOSSAL_CHECK(
      options.scaling != Scaling::longrope || static_cast<int64_t>(factors.size()) == pairs,
      "{} factors of longrope for {} pairs of channels", factors.size(), pairs);
  at::Tensor frequencies = at::empty({pairs}, at::kDouble);
  auto* const to = frequencies.mutable_data_ptr<double>();
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const double plain = plain_frequency(base, pair, exponents);
    switch (options.scaling) {
      case Scaling::linear:
        to[pair] = plain / options.factor;
        break;
      case Scaling::llama3:
        to[pair] = llama3_frequency(options, plain);
        break;
      case Scaling::dynamic:
        to[pair] = plain;
        break;
      case Scaling::yarn: {
        const double share = YarnRamp(options, channels).share(pair);
        to[pair] = share * plain / options.factor + (1 - share) * plain;
        break;
      }
      case Scaling::longrope:
        to[pair] = plain / factors[pair];
        break;
      case Scaling::proportional:  // pairs beyond the rotated channels do not turn
        to[pair] = 2 * pair < channels ? plain / options.factor : 0;
        break;
    }
  }
  return frequencies;
}

double rotary_attention_factor(const RotaryOptions& options) {
  if (options.attention_factor > 0) return options.attention_factor;
  if (options.scaling == Scaling::yarn) {
    if (options.mscale == 0 || options.mscale_all_dim == 0) {
      return yarn_magnitude(options.factor, 1);
    }
    return yarn_magnitude(options.factor, options.mscale) /
           yarn_magnitude(options.factor, options.mscale_all_dim);
  }
  if (options.scaling == Scaling::longrope && options.factor > 1) {
    return std::sqrt(1 + std::log(options.factor) /
                             std::log(static_cast<double>(options.original_positions)));
  }
  return 1;
}

at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& frequencies,
                  int64_t rotated_heads, const RotaryApplication& turn) {
  const bool of_rows = positions.dim() == 2 && positions.size(0) == x.size(0);
  COLOSSAL_CHECK(x.dim() == 4 && x.size(3) >= 2 * frequencies.size(0) &&
                     (positions.dim() == 1 || of_rows) && positions.size(-1) == x.size(1) &&
                     rotated_heads <= x.size(2),
                 "x {}, positions {}, frequencies {}, {} heads", shape_text(x),
                 shape_text(positions), shape_text(frequencies), rotated_heads);
  const at::Tensor here = frequencies.to(x.device());
  if (!at::GradMode::is_enabled()) {
    return turned(x, positions, here, rotated_heads, turn, /*backward=*/false);
  }
  return Rotary::apply(x, positions, here, rotated_heads, turn);
}

}  // namespace colossal::ops
