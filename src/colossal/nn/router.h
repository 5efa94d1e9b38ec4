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
  int64_t chosen = 0;  // experts of each token
  Scores scores = Scores::softmax;
  bool normalized = false;  // a token's weights are divided by their sum
  double scale = 1;         // multiplies the weights after that
  // Experts form groups of equal size. All experts of a token come from its `chosen_groups` best
  // groups: a group's score is the sum of its `best_of_group` best experts' (DeepSeek-V2: 1; V3:
  // 2).
  int64_t groups = 1;
  int64_t chosen_groups = 1;
  int64_t best_of_group = 1;
  bool bias = false;  // of the logits
  // A bias that is added to the scores for choosing only, and that no gradient trains (L. Wang et
  // al. 2024, "Auxiliary-Loss-Free Load Balancing").
  bool correction_bias = false;
  // In training, how many tokens of a sequence an expert takes, as a multiple of what it would have
  // if all experts had equally many; 0: all that choose it (nn/expert_capacity.h).
  double capacity_factor = 0;

  bool operator==(const RouterOptions&) const = default;
};

// What is added to the mean loss so that experts have about equally many tokens. E experts, k of
// them a token's; of some tokens, f_i: how often expert i was chosen, divided by the tokens; P_i:
// the mean of its probability.
struct RouterLosses {
  enum class Over {
    // For each layer, of each sequence: balance * E/k * sum of f_i P_i, the mean over sequences
    // weighted by their tokens (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", 17 to 20).
    sequence,
    // For each layer, of the tokens of a micro-batch of all replicas together: the same (W. Fedus
    // et al. 2021, "Switch Transformers").
    micro_batch,
    // Of the same tokens, f_i and P_i being means over all layers: balance * E * sum of f_i P_i (as
    // transformers has it).
    layers
  };
  double balance = 0;
  Over over = Over::micro_batch;
  // For each layer z * the mean over tokens of the squared logarithm of the sum of exponentials of
  // the logits (B. Zoph et al. 2022, "ST-MoE").
  double z = 0;

  bool any() const { return balance != 0 || z != 0; }
  bool operator==(const RouterLosses&) const = default;
};

struct Routing {
  at::Tensor experts;  // [tokens, chosen] int64, the best first; equal ones by index
  at::Tensor weights;  // [tokens, chosen], differentiable
  // For losses, where asked for; differentiable.
  at::Tensor probabilities{};  // [tokens, experts]: a token's add up to 1, whatever the scores are
  at::Tensor log_sums{};       // [tokens]: logarithms of the sums of exponentials of logits
};

// logits: [tokens, experts]; correction_bias: [experts], or undefined. A token's bits do not depend
// on other tokens.
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
  Routing route(const at::Tensor& x, bool for_losses) const;

 private:
  RouterOptions options_;
  ParameterHandle weight_;
  ParameterHandle bias_;             // empty: none
  ParameterHandle correction_bias_;  // empty: none
};

}  // namespace colossal::nn
