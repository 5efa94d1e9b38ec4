// Makes the options of ops::attention() for this rank's heads.
#pragma once

#include <string>
#include <vector>

#include "colossal/nn/builder.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/ops/attention_rule.h"

namespace colossal::nn {

class HeadOptions {
 public:
  // stream: name of the random number stream of the layer's dropout. here: the heads that the
  // options are for; parameters: of all heads on this rank, which include `here`.
  HeadOptions(std::string stream, const AttentionOptions& options, const LocalHeads& here,
              const AttentionParameters& parameters);

  // Returns the options of a step, without documents. They hold references into this object and
  // `context`, which must outlive them.
  ops::AttentionOptions of_step(LayerScope& scope, const StepContext& context) const;

  const std::string& stream() const { return stream_; }

 private:
  at::Tensor sinks(LayerScope& scope) const;
  ops::VirtualTokens virtual_tokens(LayerScope& scope) const;
  // Returns [key heads of here_, virtual tokens, size].
  at::Tensor heads_of(const ParameterHandle& parameter, int64_t size, LayerScope& scope) const;

  std::string stream_;
  AttentionOptions options_;
  LocalHeads here_;
  AttentionParameters parameters_;
  std::vector<double> alibi_slopes_;  // one per query head of here_; empty: no ALiBi
};

}  // namespace colossal::nn
