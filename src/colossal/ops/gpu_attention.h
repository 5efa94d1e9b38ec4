// Attention on GPUs through LibTorch's flash attention kernels, which take bf16 and fp16. Other
// types and options that these kernels lack are computed by aten_fallback.h. The functions have the
// signatures of their operators in the dispatcher; see aten_fallback.h for the arguments.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace colossal::ops::gpu {

// attention() of attention.h, without documents and virtual tokens. Returns {output, logsumexp}.
std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor& query, const at::Tensor& key,
                                             const at::Tensor& value,
                                             const std::optional<at::Tensor>& sinks,
                                             at::IntArrayRef rule_integers,
                                             at::ArrayRef<double> rule_numbers);
// Returns the gradients of {query, key, value}.
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& output_gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp, bool sinks,
    at::IntArrayRef rule_integers, at::ArrayRef<double> rule_numbers);

// attend() and attend_backward() of attention.h.
void attention_part(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const std::optional<at::Tensor>& query_documents,
                    const std::optional<at::Tensor>& key_documents,
                    const std::optional<at::Tensor>& sinks, at::IntArrayRef query_positions,
                    at::IntArrayRef key_positions, at::IntArrayRef rule_integers,
                    at::ArrayRef<double> rule_numbers, bool accumulate, const at::Tensor& output,
                    const at::Tensor& logsumexp);
void attention_part_backward(const at::Tensor& output_gradient, const at::Tensor& query,
                             const at::Tensor& key, const at::Tensor& value,
                             const at::Tensor& output, const at::Tensor& logsumexp,
                             const std::optional<at::Tensor>& query_documents,
                             const std::optional<at::Tensor>& key_documents,
                             at::IntArrayRef query_positions, at::IntArrayRef key_positions,
                             at::IntArrayRef rule_integers, at::ArrayRef<double> rule_numbers,
                             bool accumulate, const at::Tensor& query_gradient,
                             const at::Tensor& key_gradient, const at::Tensor& value_gradient);

}  // namespace colossal::ops::gpu
