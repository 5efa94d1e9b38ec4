#include "colossal/ops/dropout.h"

#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "colossal/base/error.h"
#include "colossal/ops/fallback/aten_fallback.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/parallel_for.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor masked_cpu(const at::Tensor& x, double probability, int64_t key,
                      at::IntArrayRef sample_ids, const at::Tensor& positions,
                      int64_t channel_begin) {
  const at::Tensor from = x.contiguous();
  at::Tensor to = at::empty_like(from);
  const int64_t sequence = x.size(1);
  const int64_t rows = x.size(0) * sequence;
  if (x.numel() == 0) return to;
  const int64_t channels = x.numel() / rows;
  const auto type = element_type(x.scalar_type());
  const kernels::DropoutRule rule = dropout_rule(probability);
  const at::Tensor host_positions = positions.contiguous();
  const int64_t* position = host_positions.const_data_ptr<int64_t>();
  const int64_t num_positions = host_positions.numel();  // of one sequence, or of all sequences
  const char* from_data = static_cast<const char*>(from.const_data_ptr());
  char* to_data = static_cast<char*>(to.mutable_data_ptr());
  const int64_t grain = std::max<int64_t>(1, kElementsPerThread / channels);
  parallel_for(0, rows, grain, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const RandomRow random =
          random_row(unpack_key(key), static_cast<uint64_t>(sample_ids[row / sequence]),
                     static_cast<uint32_t>(position[row % num_positions]));
      const int64_t offset = row * channels * x.element_size();
      kernels::vector_kernels().dropout(random, rule, channel_begin, channels, from_data + offset,
                                        to_data + offset, type);
    }
  });
  return to;
}

at::Tensor masked_meta(const at::Tensor& x, double, int64_t, at::IntArrayRef, const at::Tensor&,
                       int64_t) {
  const at::Tensor from = x.contiguous();
  return at::empty_like(from);
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def(
      "dropout(Tensor x, float probability, int key, int[] sample_ids, Tensor positions, "
      "int channel_begin) -> Tensor");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("dropout", masked_cpu);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("dropout", aten_fallback::dropout);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("dropout", masked_meta);
}

at::Tensor masked(const at::Tensor& x, double probability, int64_t key, at::IntArrayRef sample_ids,
                  const at::Tensor& positions, int64_t channel_begin) {
  static const auto op = find_operator<decltype(masked_cpu)>("colossal::dropout");
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return op.call(x, probability, key, sample_ids, positions, channel_begin);
}

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double probability,
                            int64_t key, const std::vector<int64_t>& sample_ids,
                            const at::Tensor& positions, int64_t channel_begin) {
    context->save_for_backward({positions});
    context->saved_data["probability"] = probability;
    context->saved_data["key"] = key;
    context->saved_data["sample_ids"] = sample_ids;
    context->saved_data["channel_begin"] = channel_begin;
    return masked(x, probability, key, sample_ids, positions, channel_begin);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor positions = context->get_saved_variables()[0];
    auto& data = context->saved_data;
    const at::Tensor gradient =
        masked(gradients[0], data["probability"].toDouble(), data["key"].toInt(),
               data["sample_ids"].toIntVector(), positions, data["channel_begin"].toInt());
    return {gradient, {}, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor dropout(const at::Tensor& x, double probability, RandomKey key,
                   std::span<const int64_t> sample_ids, const at::Tensor& positions,
                   int64_t channel_begin) {
  if (probability == 0) return x;
  COLOSSAL_CHECK(x.dim() >= 2 && x.size(0) == static_cast<int64_t>(sample_ids.size()) &&
                     positions.size(-1) == x.size(1) &&
                     (positions.dim() == 1 || positions.size(0) == x.size(0)),
                 "x has {} dims, {} elements; {} sample ids, {} positions", x.dim(), x.numel(),
                 sample_ids.size(), positions.numel());
  return Dropout::apply(x, probability, pack_key(key),
                        std::vector<int64_t>(sample_ids.begin(), sample_ids.end()), positions,
                        channel_begin);
}

}  // namespace colossal::ops
