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

// MLPs with a gate, all of one size; each matrix of all of them is one parameter: gate and up
// [experts, inner, hidden], down [experts, hidden, inner].
class ExpertStacks {
 public:
  ExpertStacks(ParameterHandle gate, ParameterHandle up, ParameterHandle down,
               ops::Activation activation)
      : gate_(std::move(gate)),
        up_(std::move(up)),
        down_(std::move(down)),
        activation_(activation) {}

  // rows [rows, hidden], those of the first expert that is here first; counts: how many each of
  // these has. Returns [rows, hidden], also of no rows by operators that autograd sees.
  at::Tensor compute(const at::Tensor& rows, const std::vector<int64_t>& counts) const;

 private:
  ParameterHandle gate_, up_, down_;
  ops::Activation activation_;
};

struct ExpertsParts {
  int64_t layer = 0;  // index of the block
  Router router;
  ExpertStacks stacks;
};

// All experts are here.
class DenseExperts : public Experts {
 public:
  explicit DenseExperts(ExpertsParts parts) : parts_(std::move(parts)) {}
  at::Tensor forward(const at::Tensor& x, const StepContext& context) override;

 protected:
  // The tokens of an activation that are routed here, [tokens, hidden]; and the activation, as x is
  // one, of their results.
  virtual at::Tensor tokens_of(const at::Tensor& x, const StepContext& /*context*/) const {
    return x.flatten(0, -2);
  }
  virtual at::Tensor activation_of(const at::Tensor& results, const at::Tensor& x,
                                   const StepContext& /*context*/) const {
    return results.view(x.sizes());
  }
  // Of the tokens of the micro-batch here, [batch * sequence], the index of the first that is
  // routed here; the others follow it.
  virtual int64_t first_token(const StepContext& /*context*/) const { return 0; }
  // rows: of all experts, by expert; counts: of each. Returns the experts' results in that order.
  virtual at::Tensor through_experts(const at::Tensor& rows,
                                     const std::vector<int64_t>& counts) const {
    return parts_.stacks.compute(rows, counts);
  }
  const ExpertStacks& stacks() const { return parts_.stacks; }

 private:
  void record(const Routing& routing, const std::vector<int64_t>& counts,
              const StepContext& context) const;

  ExpertsParts parts_;
};

}  // namespace colossal::nn
