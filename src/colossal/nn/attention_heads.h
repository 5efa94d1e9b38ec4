// Splits the fused product of queries, keys and values into heads, as every attention does before
// the scores.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <utility>

#include "colossal/nn/builder.h"

namespace colossal::nn {

class AttentionHeads {
 public:
  AttentionHeads(const AttentionOptions& options, const LocalHeads& here);

  // Queries, keys and values side by side, [.., (queries + keys) * head_size + keys * value_size],
  // as [batch, sequence, features], queries and keys turned by their positions where the model
  // does so.
  at::Tensor turned(const at::Tensor& qkv, const StepContext& context) const;
  // Splits these into queries, keys and values, [batch, heads on this rank, sequence, size] each.
  std::tuple<at::Tensor, at::Tensor, at::Tensor> split(const at::Tensor& qkv) const;
  // Splits what cross-attention has apart: [batch, sequence, queries * head_size] -> [batch,
  // queries, sequence, head_size]; [batch, positions, 2 keys * head_size] -> keys and values of
  // that shape.
  at::Tensor split_queries(const at::Tensor& query) const;
  std::pair<at::Tensor, at::Tensor> split_memory(const at::Tensor& key_value) const;
  // Selects, from keys or values [batch, K/V heads on this rank, sequence, head_size], those that
  // this rank's queries see. ops::attention() wants equally many query heads for each; where they
  // differ, heads are repeated.
  at::Tensor seen_by_queries(const at::Tensor& keys) const;
  // How many heads these are.
  int64_t num_seen() const { return key_of_query_.defined() ? queries_ : seen_.size(); }

 private:
  // The first heads of queries and keys of these [batch, sequence, heads, head_size] turned.
  at::Tensor rotated(const at::Tensor& heads, const StepContext& context) const;
  // The same by frequencies that follow from the length of each token's sequence.
  at::Tensor rotated_by_lengths(const at::Tensor& heads, const StepContext& context) const;
  at::Tensor rotated(const at::Tensor& heads, const at::Tensor& positions,
                     const at::Tensor& frequencies) const;

  int64_t head_size_, value_size_;
  int64_t queries_, keys_;
  ops::RotaryOptions rotary_;
  at::Tensor frequencies_;   // undefined: no rotation, or they depend on the length
  Range seen_;               // of the key heads here, those that queries here see
  at::Tensor key_of_query_;  // undefined: equally many queries see each key head
};

}  // namespace colossal::nn
