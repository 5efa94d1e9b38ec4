// Chooses the experts of each token, and the weights of their results.
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
    softmax_of_chosen,  // of the logits of the chosen experts (GPT-OSS)
    sigmoid             // of each logit (DeepSeek-V3)
  };
  int64_t experts = 0;
  int64_t chosen = 0;  // experts per token (top-k)
  Scores scores = Scores::softmax;
  bool normalized = false;  // a token's weights are divided by their sum
  double scale = 1;         // multiplies the weights, after they are normalized
  // Group-limited routing: experts form `groups` groups of equal size, and all experts of a token
  // come from the `chosen_groups` groups with the best scores. A group's score is the sum of the
  // scores of its `best_of_group` best experts (DeepSeek-V2: 1; DeepSeek-V3: 2).
  int64_t groups = 1;
  int64_t chosen_groups = 1;
  int64_t best_of_group = 1;
  bool bias = false;  // the logits have a bias
  // A bias that is added to the scores to choose experts, but not to compute their weights; it has
  // no gradient (L. Wang et al. 2024, "Auxiliary-Loss-Free Load Balancing").
  bool correction_bias = false;
  // In training, the maximum number of tokens of a sequence that an expert accepts, as a multiple
  // of the number that each expert gets if they are balanced; 0: no maximum (nn/expert_capacity.h).
  double capacity_factor = 0;

  bool operator==(const RouterOptions&) const = default;
};

// Auxiliary losses that are added to the mean loss to balance the experts' loads. E is the number
// of experts, k the number of experts per token. For a set of tokens, which `over` selects, f_i is
// how often expert i was chosen, divided by the number of tokens, and P_i is the mean probability
// of expert i.
struct RouterLosses {
  enum class Over {
    // Per layer, over each sequence: balance * E/k * sum_i f_i P_i, averaged over sequences with
    // their token counts as weights (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", eq. 17 to
    // 20).
    sequence,
    // Per layer, over the tokens of the micro-batches of all replicas together: balance * E/k *
    // sum_i f_i P_i (W. Fedus et al. 2021, "Switch Transformers").
    micro_batch,
    // Over the tokens of micro_batch, with f_i and P_i averaged over all layers: balance * E *
    // sum_i f_i P_i (as in Hugging Face transformers).
    layers
  };
  double balance = 0;
  Over over = Over::micro_batch;
  // Router z-loss, per layer: z * mean over tokens of logsumexp(logits)^2 (B. Zoph et al. 2022,
  // "ST-MoE").
  double z = 0;

  bool any() const { return balance != 0 || z != 0; }
  bool operator==(const RouterLosses&) const = default;
};

struct Routing {
  at::Tensor experts;  // [tokens, chosen] int64, best first; of equal scores the lower index first
  at::Tensor weights;  // [tokens, chosen], differentiable
  // For RouterLosses; differentiable. Undefined unless requested.
  at::Tensor probabilities{};  // [tokens, experts]; each row sums to 1 for all kinds of scores
  at::Tensor log_sums{};       // [tokens]: logsumexp of the logits
};

// Chooses options.chosen experts per token. logits: [tokens, experts]; correction_bias: [experts],
// or undefined. A token's result has the same bits whatever the other tokens are.
Routing choose_experts(const at::Tensor& logits, const at::Tensor& correction_bias,
                       const RouterOptions& options);

// Parameters: "router.weight" [experts, hidden], "router.bias" and "router.correction_bias"
// [experts]. Computes in fp32 (fp64 in an fp64 model), independent of the model's compute type.
class Router {
 public:
  Router(RouterOptions options, ParameterHandle weight, ParameterHandle bias,
         ParameterHandle correction_bias)
      : options_(options),
        weight_(std::move(weight)),
        bias_(std::move(bias)),
        correction_bias_(std::move(correction_bias)) {}

  const RouterOptions& options() const { return options_; }
  // x: [tokens, hidden]. for_losses: also set Routing::probabilities and Routing::log_sums.
  Routing route(const at::Tensor& x, bool for_losses) const;

 private:
  RouterOptions options_;
  ParameterHandle weight_;
  ParameterHandle bias_;             // empty: none
  ParameterHandle correction_bias_;  // empty: none
};

}  // namespace colossal::nn
