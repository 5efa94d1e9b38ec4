// Splits the output of the fused QKV projection into heads, with rotary embedding.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <utility>

#include "colossal/nn/builder.h"

namespace colossal::nn {

class AttentionHeads {
 public:
  AttentionHeads(const AttentionOptions& options, const LocalHeads& here);

  // Applies rotary embedding to queries and keys if the model uses it. qkv: queries, keys and
  // values side by side, [.., (queries + keys) * head_size + keys * value_size]. Returns [batch,
  // sequence, features], with the features in the same order.
  at::Tensor apply_rotary(const at::Tensor& qkv, const StepContext& context) const;
  // Splits the result of apply_rotary() into queries, keys and values, each [batch, heads on this
  // rank, sequence, size].
  std::tuple<at::Tensor, at::Tensor, at::Tensor> split(const at::Tensor& qkv) const;
  // Like split(), for cross-attention, whose queries and memory are projected separately.
  // split_queries(): [batch, sequence, queries * head_size] -> [batch, queries, sequence,
  // head_size]. split_keys_values(): [batch, positions, 2 * keys * head_size] -> keys and values,
  // each [batch, keys, positions, head_size].
  at::Tensor split_queries(const at::Tensor& query) const;
  std::pair<at::Tensor, at::Tensor> split_keys_values(const at::Tensor& key_value) const;
  // Selects the K/V heads that this rank's queries attend to, from keys or values [batch, K/V heads
  // on this rank, sequence, size]. In the arguments of ops::attention() all K/V heads must serve
  // equally many query heads; if this rank's do not, the result has one copy of a K/V head per
  // query head.
  at::Tensor seen_by_queries(const at::Tensor& keys) const;
  // Returns the number of heads that seen_by_queries() returns.
  int64_t num_key_value_heads_used() const {
    return key_of_query_.defined() ? queries_ : seen_.size();
  }

 private:
  // heads: [batch, sequence, heads, head_size], first query heads, then key heads, then any value
  // heads. Returns them with rotary embedding applied to the query and key heads.
  at::Tensor rotated(const at::Tensor& heads, const StepContext& context) const;
  // Like rotated(), with frequencies that depend on the length of each token's sequence
  // (StepContext::lengths).
  at::Tensor rotated_by_lengths(const at::Tensor& heads, const StepContext& context) const;
  at::Tensor rotated(const at::Tensor& heads, const at::Tensor& positions,
                     const at::Tensor& frequencies) const;

  int64_t head_size_, value_size_;
  int64_t queries_, keys_;
  ops::RotaryOptions rotary_;
  at::Tensor frequencies_;  // undefined: no rotation, or frequencies that depend on the length
  Range seen_;  // indices, among this rank's key heads, of those that its queries attend to
  at::Tensor key_of_query_;  // key head of each query head; undefined: all key heads serve equally
                             // many queries
};

}  // namespace colossal::nn
