// Implementations of Colossal's dispatcher operators that call only LibTorch's operators. The
// dispatcher calls them on devices such as GPUs, for which there are no kernels of Colossal's own.
// Other code calls the public functions of the headers that are named below. Results equal those of
// the CPU kernels up to rounding. Random numbers are bit-identical to those of the CPU: the host
// generates them and copies them to the device.
//
// Each function has the signature of its operator in the dispatcher. Arguments are those of the
// public function, in types that the dispatcher accepts:
//   rule_integers, rule_numbers     the two members of AttentionRule::packed()
//   query_positions, key_positions  pack_runs() of the positions (flat_tensor.h)
//   key (int64_t)                   pack_key() of a RandomKey (flat_tensor.h)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

namespace colossal::ops::aten_fallback {

// adamw() and the next four functions implement optimizer_kernels.h. adamw() updates the moments
// with gradient_scale * gradient, and multiplies the master weights by `decay`, which is 1 -
// learning rate * weight decay. Then it subtracts step_size * first_moment / (sqrt(second_moment) /
// root_correction + epsilon) from the master weights, with the new moments. step_size is learning
// rate / (1 - beta1^update), and root_correction is sqrt(1 - beta2^update), where `update` is
// AdamWScalars::update. Finally it copies the new master weights to `working`, in working's type;
// `working` is nullopt if the model uses the master weights themselves. accumulate() computes to <-
// to + from, and convert_copy() computes to <- scale * from, rounded to the type of `to`.
void adamw(const at::Tensor& master, const std::optional<at::Tensor>& working,
           const at::Tensor& first_moment, const at::Tensor& second_moment,
           const at::Tensor& gradient, double gradient_scale, double beta1, double beta2,
           double decay, double step_size, double root_correction, double epsilon);
void accumulate(const at::Tensor& to, const at::Tensor& from);
void convert_copy(const at::Tensor& to, const at::Tensor& from, double scale);
at::Tensor squared_norm(const at::Tensor& values);
bool all_finite(const at::Tensor& values);

// fill_normal() of random.h.
void fill_normal(const at::Tensor& values, int64_t begin, int64_t key, double mean,
                 double deviation);
// dropout() of dropout.h.
at::Tensor dropout(const at::Tensor& x, double probability, int64_t key, at::IntArrayRef sample_ids,
                   const at::Tensor& positions, int64_t channel_begin);
// rotary() of rotary.h. If `backward`, x is the gradient of the output, and the result is the
// gradient of the input: a rotation by the negative angles.
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& frequencies,
                  int64_t rotated_heads, bool interleaved, double factor, bool backward);

// attention() of attention.h, without documents and virtual tokens. Returns {output, logsumexp}, as
// in AttentionResult, but with the output in the queries' type.
std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor& query, const at::Tensor& key,
                                             const at::Tensor& value,
                                             const std::optional<at::Tensor>& sinks,
                                             at::IntArrayRef rule_integers,
                                             at::ArrayRef<double> rule_numbers);
// Returns the gradients of {query, key, value}; sink_gradient() (attention.h) returns that of the
// sinks. output, logsumexp: what attention() returned. sinks: whether the forward pass had sinks;
// ignored, since logsumexp includes them.
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& output_gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp, bool sinks,
    at::IntArrayRef rule_integers, at::ArrayRef<double> rule_numbers);

// paged_attention() of paged_attention.h. Arguments are the members of KeyValuePages and
// PagedTokens. Returns {output, logsumexp}.
std::tuple<at::Tensor, at::Tensor> paged_attention(
    const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
    const std::optional<at::Tensor>& key_scales, const std::optional<at::Tensor>& value_scales,
    const at::Tensor& tables, const at::Tensor& sequences, const at::Tensor& positions,
    int64_t longest, const std::optional<at::Tensor>& sinks, at::IntArrayRef rule_integers,
    at::ArrayRef<double> rule_numbers, const std::optional<at::Tensor>& relative_bias);

// write_to_pages() of paged_attention.h. key_pages: KeyValuePages::keys. value_pages:
// KeyValuePages::values.
void write_to_pages(const at::Tensor& key_pages, const at::Tensor& value_pages,
                    const at::Tensor& keys, const at::Tensor& values,
                    const at::Tensor& page_of_token, const at::Tensor& place_of_token);

// attend() and attend_backward() of attention.h. Arguments are the members of AttentionPart,
// AttentionResult and AttentionGradients.
//
// attention_part() writes output and logsumexp. With `accumulate`, it merges the attention to these
// keys into the values that output and logsumexp already hold, and ignores `sinks`.
// attention_part_backward() writes the three gradients. With `accumulate`, it adds to
// query_gradient; it always overwrites key_gradient and value_gradient, and always adds to
// relative_bias_gradient.
void attention_part(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const std::optional<at::Tensor>& query_documents,
                    const std::optional<at::Tensor>& key_documents,
                    const std::optional<at::Tensor>& sinks, at::IntArrayRef query_positions,
                    at::IntArrayRef key_positions, at::IntArrayRef rule_integers,
                    at::ArrayRef<double> rule_numbers, bool accumulate, const at::Tensor& output,
                    const at::Tensor& logsumexp, const std::optional<at::Tensor>& relative_bias);
void attention_part_backward(const at::Tensor& output_gradient, const at::Tensor& query,
                             const at::Tensor& key, const at::Tensor& value,
                             const at::Tensor& output, const at::Tensor& logsumexp,
                             const std::optional<at::Tensor>& query_documents,
                             const std::optional<at::Tensor>& key_documents,
                             at::IntArrayRef query_positions, at::IntArrayRef key_positions,
                             at::IntArrayRef rule_integers, at::ArrayRef<double> rule_numbers,
                             bool accumulate, const at::Tensor& query_gradient,
                             const at::Tensor& key_gradient, const at::Tensor& value_gradient,
                             const std::optional<at::Tensor>& relative_bias,
                             const std::optional<at::Tensor>& relative_bias_gradient);

}  // namespace colossal::ops::aten_fallback
