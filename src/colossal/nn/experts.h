// A mixture-of-experts layer: each token goes through a few of many MLPs, and its results are
// summed by weights (N. Shazeer et al. 2017, "Outrageously Large Neural Networks").
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "colossal/nn/layers.h"
#include "colossal/nn/parameter.h"
#include "colossal/nn/router.h"
#include "colossal/ops/activation.h"

namespace colossal::nn {

// The weights of experts: MLPs with a gate, of equal size. Each parameter holds a matrix of all
// experts: gate and up [experts, inner, hidden], down [experts, hidden, inner].
class ExpertStacks {
 public:
  ExpertStacks(ParameterHandle gate, ParameterHandle up, ParameterHandle down,
               ops::Activation activation)
      : gate_(std::move(gate)),
        up_(std::move(up)),
        down_(std::move(down)),
        activation_(activation) {}

  // rows: [rows, hidden], in the order of the experts here; counts: rows of each expert. Returns
  // [rows, hidden]. Zero rows too pass through operators that autograd sees.
  at::Tensor compute(const at::Tensor& rows, const std::vector<int64_t>& counts) const;

 private:
  ParameterHandle gate_, up_, down_;
  ops::Activation activation_;
};

struct ExpertsParts {
  Router router;
  ExpertStacks stacks;
};

// Experts that are all on this rank.
class DenseExperts : public Experts {
 public:
  explicit DenseExperts(ExpertsParts parts) : parts_(std::move(parts)) {}
  at::Tensor forward(const at::Tensor& x, const StepContext& context) override;

 protected:
  // tokens_of() returns the tokens of an activation that this rank routes, [tokens, hidden];
  // activation_of() makes an activation like x of their results.
  virtual at::Tensor tokens_of(const at::Tensor& x, const StepContext& /*context*/) const {
    return x.flatten(0, -2);
  }
  virtual at::Tensor activation_of(const at::Tensor& results, const at::Tensor& x,
                                   const StepContext& /*context*/) const {
    return results.view(x.sizes());
  }
  // rows: [rows, hidden] in the order of all experts; counts: rows of each. Returns the experts'
  // results in that order.
  virtual at::Tensor through_experts(const at::Tensor& rows,
                                     const std::vector<int64_t>& counts) const {
    return parts_.stacks.compute(rows, counts);
  }
  const ExpertStacks& stacks() const { return parts_.stacks; }

 private:
  ExpertsParts parts_;
};

}  // namespace colossal::nn
