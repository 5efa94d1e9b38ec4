// Colossal's operators, composed of LibTorch's operators, for devices (GPUs) whose memory our CPU
// kernels cannot access. Results equal those of the CPU kernels up to rounding. Random numbers are
// bit-identical to the CPU's: they are generated on the host and copied to the device. Each
// function has the signature of its operator in the dispatcher; rule_integers and rule_numbers are
// an AttentionRule::Packed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

namespace colossal::ops::aten_fallback {

void adamw(const at::Tensor& master, const std::optional<at::Tensor>& working,
           const at::Tensor& first_moment, const at::Tensor& second_moment,
           const at::Tensor& gradient, double gradient_scale, double beta1, double beta2,
           double decay, double step_size, double root_correction, double epsilon);
void accumulate(const at::Tensor& to, const at::Tensor& from);
void convert_copy(const at::Tensor& to, const at::Tensor& from, double scale);
double squared_norm(const at::Tensor& values);
bool all_finite(const at::Tensor& values);

void fill_normal(const at::Tensor& values, int64_t begin, int64_t key, double mean,
                 double deviation);
at::Tensor dropout(const at::Tensor& x, double probability, int64_t key, at::IntArrayRef sample_ids,
                   const at::Tensor& positions, int64_t channel_begin);
at::Tensor rotary(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& frequencies,
                  int64_t rotated_heads, bool interleaved, double factor, bool backward);

std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor& query, const at::Tensor& key,
                                             const at::Tensor& value,
                                             const std::optional<at::Tensor>& sinks,
                                             at::IntArrayRef rule_integers,
                                             at::ArrayRef<double> rule_numbers);
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& output_gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp, bool sinks,
    at::IntArrayRef rule_integers, at::ArrayRef<double> rule_numbers);

std::tuple<at::Tensor, at::Tensor> paged_attention(
    const at::Tensor& query, const at::Tensor& keys, const at::Tensor& values,
    const std::optional<at::Tensor>& key_scales, const std::optional<at::Tensor>& value_scales,
    const at::Tensor& tables, const at::Tensor& sequences, const at::Tensor& positions,
    const std::optional<at::Tensor>& sinks, at::IntArrayRef rule_integers,
    at::ArrayRef<double> rule_numbers);

void write_to_pages(const at::Tensor& key_pages, const at::Tensor& value_pages,
                    const at::Tensor& keys, const at::Tensor& values,
                    const at::Tensor& page_of_token, const at::Tensor& place_of_token);

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

}  // namespace colossal::ops::aten_fallback
