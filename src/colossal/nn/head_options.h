// Makes the ops::AttentionOptions with which an attention layer calls ops::attention() in a forward
// pass. Each attention layer owns one HeadOptions, which keeps the layer's nn::AttentionOptions and
// knows for which heads this rank computes the attention.
#pragma once

#include <string>
#include <vector>

#include "colossal/nn/builder.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/ops/attention/attention_rule.h"

namespace colossal::nn {

class HeadOptions {
 public:
  //   stream      name of the random number stream of the layer's dropout
  //   options     of all heads of the attention, over all ranks
  //   here        the heads for which this rank computes the attention: all heads whose parameters
  //               this rank holds, or some of them if the ranks of sp divide the heads (ulysses.h)
  //   parameters  of all heads whose parameters this rank holds
  HeadOptions(std::string stream, const AttentionOptions& options, const LocalHeads& here,
              const AttentionParameters& parameters);

  // Returns the options for a forward pass: all fields but documents and query_documents, which the
  // caller sets. The result refers to lists in this object and in `context`, so both must outlive
  // it. Parameters stay on the device until `scope` ends.
  ops::AttentionOptions of_step(LayerScope& scope, const StepContext& context) const;

  const std::string& stream() const { return stream_; }

 private:
  // Returns the sinks of the query heads in here_; undefined if there are none.
  at::Tensor sinks(LayerScope& scope) const;
  // Returns the virtual tokens for the key heads in here_; undefined tensors if there are none.
  ops::VirtualTokens virtual_tokens(LayerScope& scope) const;
  // Returns the part of virtual keys or virtual values that belongs to the key heads in here_, [key
  // heads, virtual tokens, size]. size: features of one head.
  at::Tensor heads_of(const ParameterHandle& parameter, int64_t size, LayerScope& scope) const;

  std::string stream_;
  AttentionOptions options_;
  LocalHeads here_;
  AttentionParameters parameters_;
  std::vector<double> alibi_slopes_;  // one per query head of here_; empty: no ALiBi
};

}  // namespace colossal::nn
