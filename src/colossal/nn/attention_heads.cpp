#include "colossal/nn/attention_heads.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "colossal/base/error.h"

namespace colossal::nn {

AttentionHeads::AttentionHeads(const AttentionOptions& options, const LocalHeads& here)
    : head_size_(options.head_size),
      value_size_(options.size_of_value()),
      queries_(here.queries.size()),
      keys_(here.keys.size()),
      rotary_(options.rotary) {
  if (rotary_.base > 0 && !rotary_.depends_on_length()) {
    frequencies_ = ops::DeviceTable(ops::rotary_frequencies(options.rotary, options.head_size));
  }
  std::vector<int64_t> key_of_query;
  for (int64_t query = here.queries.begin; query < here.queries.end; ++query) {
    key_of_query.push_back(query * options.kv_heads / options.heads - here.keys.begin);
  }
  if (key_of_query.empty()) return;
  seen_ = {key_of_query.front(), key_of_query.back() + 1};
  // ops::attention() lets query head i use key head floor(i * keys / queries). If these heads are
  // not mapped so, select_used_kv_heads() copies the key head of each query head.
  bool even = queries_ % seen_.size() == 0;
  for (int64_t i = 0; i < queries_; ++i) {
    even = even && key_of_query[i] - seen_.begin == i * seen_.size() / queries_;
  }
  if (!even) key_of_query_ = ops::DeviceTable(at::tensor(key_of_query, at::kLong));
}

at::Tensor AttentionHeads::apply_rotary(const at::Tensor& qkv, const StepContext& context) const {
  const int64_t turning = queries_ + keys_;
  const int64_t turning_features = turning * head_size_, value_features = keys_ * value_size_;
  const at::Tensor of_tokens = qkv.view(
      {context.tokens().batch, context.tokens().sequence, turning_features + value_features});
  if (rotary_.base == 0) return of_tokens;
  if (value_size_ == head_size_) {
    return rotated(of_tokens.unflatten(-1, {turning + keys_, head_size_}), context).flatten(2);
  }
  const std::vector<at::Tensor> parts =
      of_tokens.split_with_sizes({turning_features, value_features}, -1);
  const at::Tensor heads = rotated(parts[0].unflatten(-1, {turning, head_size_}), context);
  return at::cat({heads.flatten(2), parts[1]}, -1);
}

at::Tensor AttentionHeads::rotated(const at::Tensor& heads, const StepContext& context) const {
  if (frequencies_.defined()) {
    return rotated(heads, context.tokens().positions, frequencies_.on(heads.device()));
  }
  if (context.tokens().lengths.defined()) return rotated_by_lengths(heads, context);
  return rotated(heads, context.tokens().positions,
                 ops::rotary_frequencies(rotary_, head_size_, context.tokens().length));
}

at::Tensor AttentionHeads::rotated(const at::Tensor& heads, const at::Tensor& positions,
                                   const at::Tensor& frequencies) const {
  return ops::rotary(heads, positions, frequencies, queries_ + keys_,
                     {rotary_.interleaved, ops::rotary_attention_factor(rotary_)});
}

// Rotates consecutive tokens of one length at a time. All lengths up to original_positions have the
// same frequencies, so they count as one length.
at::Tensor AttentionHeads::rotated_by_lengths(const at::Tensor& heads,
                                              const StepContext& context) const {
  if (heads.numel() == 0) return heads;
  const at::Tensor lengths =
      context.tokens().lengths.clamp_min(rotary_.original_positions).contiguous();
  const auto* length = lengths.const_data_ptr<int64_t>();
  const at::Tensor tokens = heads.flatten(0, 1).unsqueeze(0);
  const at::Tensor positions =
      context.tokens()
          .positions.expand({context.tokens().batch, context.tokens().sequence})
          .flatten();
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0, end = 0; begin < tokens.size(1); begin = end) {
    while (end < tokens.size(1) && length[end] == length[begin]) ++end;
    parts.push_back(rotated(tokens.narrow(1, begin, end - begin),
                            positions.narrow(0, begin, end - begin),
                            ops::rotary_frequencies(rotary_, head_size_, length[begin])));
  }
  return (parts.size() == 1 ? parts.front() : at::cat(parts, 1)).view(heads.sizes());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> AttentionHeads::split(const at::Tensor& qkv) const {
  // One split, because its backward concatenates the three gradients. The backward of three
  // narrow() would fill a tensor of qkv's size each.
  const std::vector<at::Tensor> parts =
      qkv.split_with_sizes({queries_ * head_size_, keys_ * head_size_, keys_ * value_size_}, -1);
  const auto heads = [](const at::Tensor& part, int64_t count, int64_t size) {
    return part.unflatten(-1, {count, size}).transpose(1, 2);
  };
  return {heads(parts[0], queries_, head_size_), heads(parts[1], keys_, head_size_),
          heads(parts[2], keys_, value_size_)};
}

at::Tensor AttentionHeads::split_queries(const at::Tensor& query) const {
  return query.unflatten(-1, {queries_, head_size_}).transpose(1, 2);
}

std::pair<at::Tensor, at::Tensor> AttentionHeads::split_keys_values(
    const at::Tensor& key_value) const {
  const at::Tensor heads = key_value.unflatten(-1, {2 * keys_, head_size_});
  const std::vector<at::Tensor> parts = heads.split_with_sizes({keys_, keys_}, 2);
  return {parts[0].transpose(1, 2), parts[1].transpose(1, 2)};
}

at::Tensor AttentionHeads::select_used_kv_heads(const at::Tensor& keys) const {
  if (key_of_query_.defined()) return keys.index_select(1, key_of_query_.on(keys.device()));
  return seen_.size() == keys_ ? keys : keys.narrow(1, seen_.begin, seen_.size());
}

}  // namespace colossal::nn
