// Makes the options of ops::attention() for the heads here.
#pragma once

#include <string>
#include <vector>

#include "colossal/nn/builder.h"
#include "colossal/nn/layer_scope.h"
#include "colossal/ops/attention_rule.h"

namespace colossal::nn {

class HeadOptions {
 public:
  // stream: names the random numbers of the layer's dropout. parameters: of all heads of the rank,
  // of which `here` are some.
  HeadOptions(std::string stream, const AttentionOptions& options, const LocalHeads& here,
              const AttentionParameters& parameters);

  // Returns the options of a step, without documents. They refer to this object and to the context.
  ops::AttentionOptions of_step(LayerScope& scope, const StepContext& context) const;

  const std::string& stream() const { return stream_; }

 private:
  at::Tensor sinks(LayerScope& scope) const;
  ops::VirtualTokens virtual_tokens(LayerScope& scope) const;
  // [heads of keys here, virtual tokens, size]
  at::Tensor heads_of(const ParameterHandle& parameter, int64_t size, LayerScope& scope) const;

  std::string stream_;
  AttentionOptions options_;
  LocalHeads here_;
  AttentionParameters parameters_;
  std::vector<double> alibi_slopes_;  // of the query heads here; empty: no ALiBi
};

}  // namespace colossal::nn
