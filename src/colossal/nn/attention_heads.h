// Splits the output of the fused QKV projection into this rank's attention heads, and applies the
// rotary embedding to queries and keys. Attention layers use it before ops::attention().
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <utility>

#include "colossal/nn/builder.h"
#include "colossal/ops/device_table.h"

namespace colossal::nn {

// In the shapes below, Q is the number of query heads on this rank and K the number of K/V heads on
// this rank.
class AttentionHeads {
 public:
  // options: of the whole attention; here: the heads on this rank.
  AttentionHeads(const AttentionOptions& options, const LocalHeads& here);

  // Applies the rotary embedding to queries and keys; does nothing to them if options.rotary.base
  // is 0. qkv: concatenated queries, keys and values of this rank's heads, [context.tokens().batch
  // * context.tokens().sequence tokens in any number of dims, features], with features = Q *
  // head_size + K * head_size + K * value_size. Returns [batch, sequence, features] with the same
  // order of features.
  at::Tensor apply_rotary(const at::Tensor& qkv, const StepContext& context) const;
  // Splits the result of apply_rotary() into heads. Returns, in this order: queries [batch, Q,
  // sequence, head_size], keys [batch, K, sequence, head_size] and values [batch, K, sequence,
  // value_size].
  std::tuple<at::Tensor, at::Tensor, at::Tensor> split(const at::Tensor& qkv) const;
  // For cross-attention: splits queries [batch, sequence, Q * head_size] into heads. Returns
  // [batch, Q, sequence, head_size].
  at::Tensor split_queries(const at::Tensor& query) const;
  // For cross-attention: splits the concatenated keys and values of the other sequence, [batch,
  // positions, 2 * K * head_size], into heads. Returns keys, then values, each [batch, K,
  // positions, head_size].
  std::pair<at::Tensor, at::Tensor> split_keys_values(const at::Tensor& key_value) const;
  // Selects the K/V heads that this rank's query heads attend to. keys: keys or values, [batch, K,
  // sequence, size]. ops::attention() requires that every K/V head serves the same number of query
  // heads. If this rank's K/V heads do not, the result has Q heads: for each query head, a copy of
  // its K/V head.
  at::Tensor select_used_kv_heads(const at::Tensor& keys) const;
  // Returns the number of heads in the result of select_used_kv_heads().
  int64_t num_key_value_heads_used() const {
    return key_of_query_.defined() ? queries_ : seen_.size();
  }

 private:
  // Returns `heads` with the rotary embedding applied to the query and key heads. heads: [batch,
  // sequence, heads, head_size], first Q query heads, then K key heads. After them there may be
  // value heads, which are returned unchanged.
  at::Tensor rotated(const at::Tensor& heads, const StepContext& context) const;
  // Like rotated(), for frequencies that depend on the length of each token's sequence
  // (TokenGrid::lengths).
  at::Tensor rotated_by_lengths(const at::Tensor& heads, const StepContext& context) const;
  // Like rotated(), for the given positions and frequencies (see ops::rotary()).
  at::Tensor rotated(const at::Tensor& heads, const at::Tensor& positions,
                     const at::Tensor& frequencies) const;

  int64_t head_size_, value_size_;
  int64_t queries_, keys_;  // Q and K
  ops::RotaryOptions rotary_;
  // Undefined if there is no rotation, or if the frequencies depend on the sequence length.
  ops::DeviceTable frequencies_;
  Range seen_;  // the key heads, among this rank's, that this rank's query heads attend to
  // [Q] int64: index, among this rank's key heads, of the key head of each query head. Undefined if
  // every key head in seen_ serves the same number of query heads.
  ops::DeviceTable key_of_query_;
};

}  // namespace colossal::nn
