// Which experts a token goes to, and with what weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

struct RouterOptions {
  enum class Scores {
    softmax,            // of the logits of all experts
    softmax_of_chosen,  // of the logits of the chosen ones (GPT-OSS)
    sigmoid             // of each logit (DeepSeek-V3)
  };
  int64_t experts = 0;
  int64_t chosen = 0;  // of a token
  Scores scores = Scores::softmax;
  bool normalized = false;  // a token's weights are divided by their sum
  double scale = 1;         // multiplies them then
  // Experts lie in groups of as many, and a token's are all in the `chosen_groups` best ones
  // (DeepSeek-V2: those with the best expert; V3: with the best two together).
  int64_t groups = 1;
  int64_t chosen_groups = 1;
  int64_t best_of_group = 1;  // whose scores, together, are a group's
  bool bias = false;          // of the logits
  // Beside the scores a bias that takes part in choosing only, and that no gradient trains (L. Wang
  // et al. 2024, "Auxiliary-Loss-Free Load Balancing").
  bool correction_bias = false;

  bool operator==(const RouterOptions&) const = default;
};

struct Routing {
  at::Tensor experts;  // [tokens, chosen] int64, the best first; of equals the one of lower index
  at::Tensor weights;  // [tokens, chosen], differentiable
};

// logits: [tokens, experts]; correction_bias: [experts], or undefined. The same bits whatever other
// tokens there are.
Routing choose_experts(const at::Tensor& logits, const at::Tensor& correction_bias,
                       const RouterOptions& options);

// Parameters "router.weight" [experts, hidden], "router.bias" and "router.correction_bias"
// [experts]. Computes in fp32 (fp64 in an fp64 model), whatever the model computes in.
class Router {
 public:
  Router(RouterOptions options, ParameterHandle weight, ParameterHandle bias,
         ParameterHandle correction_bias)
      : options_(options),
        weight_(std::move(weight)),
        bias_(std::move(bias)),
        correction_bias_(std::move(correction_bias)) {}

  const RouterOptions& options() const { return options_; }
  // x: [tokens, hidden]
  Routing route(const at::Tensor& x) const;

 private:
  RouterOptions options_;
  ParameterHandle weight_;
  ParameterHandle bias_;             // empty: none
  ParameterHandle correction_bias_;  // empty: none
};

}  // namespace colossal::nn
