// The router of a mixture-of-experts layer: it chooses the experts of each token and the weights
// with which their outputs are summed. Also the options of the auxiliary losses that balance the
// experts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

struct RouterOptions {
  // How the scores of a token's experts are computed from the router's logits. The experts with the
  // largest scores are chosen. Their scores are their weights, except with softmax_of_chosen.
  enum class Scores {
    softmax,            // the softmax over the logits of all experts
    softmax_of_chosen,  // the logits; weights: the softmax over the logits of the chosen (GPT-OSS)
    sigmoid             // the sigmoid of each logit (DeepSeek-V3)
  };
  int64_t experts = 0;  // number of experts
  int64_t chosen = 0;   // experts per token (top-k)
  Scores scores = Scores::softmax;
  bool normalized = false;  // whether a token's weights are divided by their sum
  double scale = 1;         // factor on the weights, after they are normalized
  // Group-limited routing: experts form `groups` groups of equal size, and all experts of a token
  // come from the `chosen_groups` groups with the best scores. A group's score is the sum of the
  // scores of its `best_of_group` best experts (DeepSeek-V2: 1; DeepSeek-V3: 2).
  int64_t groups = 1;
  int64_t chosen_groups = 1;
  int64_t best_of_group = 1;
  bool bias = false;  // the logits have a bias
  // A bias that is added to the scores to choose groups and experts, but not to compute weights; it
  // has no gradient (L. Wang et al. 2024, "Auxiliary-Loss-Free Load Balancing").
  bool correction_bias = false;
  // In training, the maximum number of tokens of a sequence that an expert accepts, divided by the
  // number of tokens that each expert gets with perfect balance. 0: no maximum. See
  // nn/expert_capacity.h.
  double capacity_factor = 0;

  bool operator==(const RouterOptions&) const = default;
};

// Coefficients of the auxiliary losses that are added to the training loss to balance the experts.
// For a set of tokens, f_i is the number of tokens that chose expert i, divided by the number of
// tokens, and P_i is the mean over these tokens of the expert's probability: the softmax over the
// logits or, with Scores::sigmoid, the sigmoid divided by the sum of all experts' sigmoids. E is
// the number of experts and k the number of experts per token. Losses given for each layer are
// summed over layers.
struct RouterLosses {
  // The set of tokens over which f_i and P_i are computed, and the balancing loss.
  enum class Over {
    // For each layer, over the tokens of each sequence: balance * E/k * sum_i f_i P_i. The mean
    // over sequences is weighted by their token counts (DeepSeek-AI 2024, "DeepSeek-V3 Technical
    // Report", eq. 17 to 20).
    sequence,
    // For each layer, over the tokens of a micro-batch of all replicas together: balance * E/k *
    // sum_i f_i P_i (W. Fedus et al. 2021, "Switch Transformers").
    micro_batch,
    // As micro_batch, but with f_i and P_i averaged over all layers: balance * E * sum_i f_i P_i
    // (as in Hugging Face transformers).
    layers
  };
  double balance = 0;  // coefficient of the balancing loss; 0: none
  Over over = Over::micro_batch;
  // Coefficient of the router z-loss; 0: none. For each layer, over the tokens of a micro-batch of
  // all replicas together: z * mean of logsumexp(logits)^2 (B. Zoph et al. 2022, "ST-MoE").
  double z = 0;

  bool any() const { return balance != 0 || z != 0; }
  bool operator==(const RouterLosses&) const = default;
};

// The router's result for a set of tokens.
struct Routing {
  // [tokens, chosen] int64: the chosen experts, highest score (plus correction bias, if any) first;
  // of equal numbers, the lower index first.
  at::Tensor experts;
  at::Tensor weights;  // [tokens, chosen]: weight of each chosen expert's output; differentiable
  // The two tensors below are for RouterLosses; differentiable. Both are undefined unless route()
  // is called with for_losses.
  // [tokens, experts]: with Scores::sigmoid, the sigmoids divided by their sum over all experts;
  // otherwise the softmax over the logits of all experts.
  at::Tensor probabilities{};
  at::Tensor log_sums{};  // [tokens]: logsumexp of the logits of all experts
};

// Chooses options.chosen experts per token from the router's logits. Sets only `experts` and
// `weights` of the result. logits: [tokens, experts]; correction_bias: [experts], or undefined if
// there is none. A token's result has the same bits whatever the other tokens are.
Routing choose_experts(const at::Tensor& logits, const at::Tensor& correction_bias,
                       const RouterOptions& options);

// A router with its parameters. The builder that makes the router makes them, too, with these names
// in its current scope: "router.weight" [experts, hidden] and, if RouterOptions has them,
// "router.bias" and "router.correction_bias" [experts]. The router computes in fp32 (fp64 in an
// fp64 model) even if the model computes in bf16.
class Router {
 public:
  // bias, correction_bias: empty handles if there are none.
  Router(RouterOptions options, ParameterHandle weight, ParameterHandle bias,
         ParameterHandle correction_bias)
      : options_(options),
        weight_(std::move(weight)),
        bias_(std::move(bias)),
        correction_bias_(std::move(correction_bias)) {}

  const RouterOptions& options() const { return options_; }
  // Routes the tokens x [tokens, hidden]. for_losses: whether to set Routing::probabilities and
  // Routing::log_sums, too.
  Routing route(const at::Tensor& x, bool for_losses) const;

 private:
  RouterOptions options_;
  ParameterHandle weight_;
  ParameterHandle bias_;
  ParameterHandle correction_bias_;
};

}  // namespace colossal::nn
