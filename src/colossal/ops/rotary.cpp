#include "colossal/ops/rotary.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "colossal/base/error.h"
#include "colossal/ops/any_device.h"
#include "colossal/ops/dispatch.h"
#include "colossal/ops/flat_tensor.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

double scaled_frequency(const RotaryOptions& options, double frequency) {
  if (options.original_positions == 0) return frequency / options.factor;
  const double turns =  // within the positions of the first training
      static_cast<double>(options.original_positions) * frequency / (2 * std::numbers::pi);
  if (turns < options.low_frequency_factor) return frequency / options.factor;
  if (turns > options.high_frequency_factor) return frequency;
  const double share = (turns - options.low_frequency_factor) /
                       (options.high_frequency_factor - options.low_frequency_factor);
  return (1 - share) * frequency / options.factor + share * frequency;
}

struct Turns {
  at::Tensor cosines, sines;  // [sequence, head_size / 2]
};

// Angles in fp64. inverse: to turn back.
Turns turns_of(const at::Tensor& positions, const at::Tensor& frequencies, at::ScalarType type,
               bool inverse) {
  const at::Tensor angles = positions.unsqueeze(-1) * frequencies;
  return {angles.cos().to(type), angles.sin().mul_(inverse ? -1 : 1).to(type)};
}

at::Tensor rotary_cpu(const at::Tensor& given, const at::Tensor& positions,
                      const at::Tensor& frequencies, int64_t rotated_heads, bool inverse) {
  const at::Tensor x = given.contiguous();
  const Turns turns = turns_of(positions, frequencies, compute_type(x.scalar_type()), inverse);
  at::Tensor y = at::empty_like(x);
  const int64_t sequence = x.size(1), head_size = x.size(3), half = head_size / 2;
  const int64_t row_bytes = x.size(2) * head_size * x.element_size();
  const int64_t rotated_bytes = rotated_heads * head_size * x.element_size();
  const int64_t turn_bytes = half * turns.cosines.element_size();
  const auto type = element_type(x.scalar_type());
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  const auto* cosines = static_cast<const char*>(turns.cosines.const_data_ptr());
  const auto* sines = static_cast<const char*>(turns.sines.const_data_ptr());
  auto* to = static_cast<char*>(y.mutable_data_ptr());
  const int64_t grain = std::max<int64_t>(1, kElementsPerThread / (x.size(2) * head_size + 1));
  at::parallel_for(0, x.size(0) * sequence, grain, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t turn = row % sequence * turn_bytes, begin = row * row_bytes;
      kernels::vector_kernels().rotate(from + begin, cosines + turn, sines + turn, to + begin, type,
                                       rotated_heads, half);
      std::copy(from + begin + rotated_bytes, from + begin + row_bytes, to + begin + rotated_bytes);
    }
  });
  return y;
}

// On meta, what the CPU allocates.
at::Tensor rotary_meta(const at::Tensor& given, const at::Tensor& positions,
                       const at::Tensor& frequencies, int64_t, bool inverse) {
  const at::Tensor x = given.contiguous();
  const Turns turns = turns_of(positions, frequencies, compute_type(x.scalar_type()), inverse);
  return at::empty_like(x);
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def(
      "rotary(Tensor x, Tensor positions, Tensor frequencies, int rotated_heads, bool inverse) -> "
      "Tensor");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("rotary", rotary_cpu);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("rotary", any_device::rotary);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("rotary", rotary_meta);
}

at::Tensor turned(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& frequencies,
                  int64_t rotated_heads, bool inverse) {
  static const auto op = find_operator<decltype(rotary_cpu)>("colossal::rotary");
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return op.call(x, positions, frequencies, rotated_heads, inverse);
}

struct Rotary : torch::autograd::Function<Rotary> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& positions, const at::Tensor& frequencies,
                            int64_t rotated_heads) {
    // All layers share these, where tables of cosines and sines would be each layer's own.
    context->save_for_backward({positions, frequencies});
    context->saved_data["rotated_heads"] = rotated_heads;
    return turned(x, positions, frequencies, rotated_heads, /*inverse=*/false);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const int64_t rotated_heads = context->saved_data["rotated_heads"].toInt();
    return {turned(gradients[0], saved[0], saved[1], rotated_heads, /*inverse=*/true), {}, {}, {}};
  }
};

}  // namespace

at::Tensor rotary_frequencies(const RotaryOptions& options, int64_t head_size) {
  const int64_t half = head_size / 2;
  at::Tensor frequencies = at::empty({half}, at::kDouble);
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(head_size);
    frequencies.mutable_data_ptr<double>()[i] =
        scaled_frequency(options, std::pow(options.base, -exponent));
  }
  return frequencies;
}

at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& frequencies,
                  int64_t rotated_heads) {
  COLOSSAL_CHECK(x.dim() == 4 && x.size(3) == 2 * frequencies.size(0) && positions.dim() == 1 &&
                     positions.size(0) == x.size(1) && rotated_heads <= x.size(2),
                 "x {}, positions {}, frequencies {}, {} heads", shape_text(x),
                 shape_text(positions), shape_text(frequencies), rotated_heads);
  return Rotary::apply(x, positions, frequencies.to(x.device()), rotated_heads);
}

}  // namespace colossal::ops
