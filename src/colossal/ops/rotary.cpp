#include "colossal/ops/rotary.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <numbers>

#include "colossal/base/error.h"
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

// direction: 1, or -1 to turn back.
at::Tensor turned(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& frequencies,
                  int64_t rotated_heads, double direction) {
  // [sequence, 1, head_size / 2]
  const at::Tensor angles = (positions.unsqueeze(-1) * frequencies).unsqueeze(1);
  const at::Tensor cosines = angles.cos().to(x.scalar_type());
  const at::Tensor sines = angles.sin().mul_(direction).to(x.scalar_type());
  at::Tensor y = at::empty_like(x, at::MemoryFormat::Contiguous);
  const int64_t half = x.size(3) / 2, others = x.size(2) - rotated_heads;
  const auto part = [&](const at::Tensor& t, int64_t begin) {
    return t.narrow(2, 0, rotated_heads).narrow(3, begin, half);
  };
  at::Tensor first = part(y, 0), second = part(y, half);
  at::mul_out(first, part(x, 0), cosines).addcmul_(part(x, half), sines, -1);
  at::mul_out(second, part(x, half), cosines).addcmul_(part(x, 0), sines);
  y.narrow(2, rotated_heads, others).copy_(x.narrow(2, rotated_heads, others));
  return y;
}

struct Rotary : torch::autograd::Function<Rotary> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& positions, const at::Tensor& frequencies,
                            int64_t rotated_heads) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    // All layers share these, where tables of cosines and sines would be each layer's own.
    context->save_for_backward({positions, frequencies});
    context->saved_data["rotated_heads"] = rotated_heads;
    return turned(x, positions, frequencies, rotated_heads, 1);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const int64_t rotated_heads = context->saved_data["rotated_heads"].toInt();
    return {turned(gradients[0], saved[0], saved[1], rotated_heads, -1), {}, {}, {}};
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
