// A mixture-of-experts layer: each token goes through a few of many MLPs, and its results are
// summed by weights (N. Shazeer et al. 2017, "Outrageously Large Neural Networks").
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "colossal/nn/expert_adapter.h"
#include "colossal/nn/expert_capacity.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/parameter.h"
#include "colossal/nn/router.h"
#include "colossal/ops/activation.h"
#include "colossal/ops/clamped_gate.h"

namespace colossal::nn {

// Called with each weight of a stack as it is used, [experts here, ..]; what it returns is computed
// with. Null: the weight itself.
using OnUse = std::function<at::Tensor(const at::Tensor& weight)>;

// Of what makes the inner features of experts, gate and up, and of what makes their results.
struct ExpertAdapters {
  ExpertAdapter first, second;

  bool none() const { return !first && !second; }
};

// MLPs with a gate, all of one size.
class ExpertStacks {
 public:
  virtual ~ExpertStacks() = default;
  // rows [rows, hidden], those of the first expert that is here first; counts: how many each of
  // these has. Returns [rows, hidden], also of no rows by operators that autograd sees.
  virtual at::Tensor compute(const at::Tensor& rows, const std::vector<int64_t>& counts,
                             const StepContext& context, const OnUse& on_use) const = 0;
  // Whether compute_with() computes all that compute() does: there are weights of the type computed
  // in, and no adapters.
  virtual bool can_be_copied() const = 0;
  // The same with other experts' weights, in the order in which compute() uses its own.
  virtual at::Tensor compute_with(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                  const std::vector<at::Tensor>& weights) const = 0;
};

// Each matrix of all experts is one parameter: gate and up [experts, inner, hidden], down [experts,
// hidden, inner].
class SeparateStacks : public ExpertStacks {
 public:
  SeparateStacks(ParameterHandle gate, ParameterHandle up, ParameterHandle down,
                 ExpertAdapters adapters, ops::Activation activation)
      : gate_(std::move(gate)),
        up_(std::move(up)),
        down_(std::move(down)),
        adapters_(std::move(adapters)),
        activation_(activation) {}
  at::Tensor compute(const at::Tensor& rows, const std::vector<int64_t>& counts,
                     const StepContext& context, const OnUse& on_use) const override;
  at::Tensor compute_with(const at::Tensor& rows, const std::vector<int64_t>& counts,
                          const std::vector<at::Tensor>& weights) const override;
  bool can_be_copied() const override;

 private:
  ParameterHandle gate_, up_, down_;
  ExpertAdapters adapters_;
  ops::Activation activation_;
};

// GPT-OSS's (OpenAI 2025): gate and up are one parameter of pairs of columns, [experts, hidden, 2
// inner], down is [experts, inner, hidden], and both have biases, [experts, 2 inner] and [experts,
// hidden].
class PairedStacks : public ExpertStacks {
 public:
  struct Parameters {
    ParameterHandle gate_up, gate_up_bias, down, down_bias;
  };
  // parts: how many ranks have a part each of an expert's inner features; their results are summed.
  PairedStacks(Parameters parameters, ExpertAdapters adapters, const ops::ClampedGate& gate,
               int parts)
      : parameters_(std::move(parameters)),
        adapters_(std::move(adapters)),
        gate_(gate),
        parts_(parts) {}
  at::Tensor compute(const at::Tensor& rows, const std::vector<int64_t>& counts,
                     const StepContext& context, const OnUse& on_use) const override;
  at::Tensor compute_with(const at::Tensor& rows, const std::vector<int64_t>& counts,
                          const std::vector<at::Tensor>& weights) const override;
  bool can_be_copied() const override;

 private:
  Parameters parameters_;
  ExpertAdapters adapters_;
  ops::ClampedGate gate_;
  int parts_;
};

// In what order the experts of a layer lie over ranks.
struct ExpertPlaces {
  std::vector<int64_t> order;     // the expert at each place; empty: as they are numbered
  std::vector<int64_t> expected;  // rows of each expert that dry runs go by; empty: equally many
};

struct ExpertsParts {
  int64_t layer = 0;  // index of the block
  Router router;
  ShareRows share_rows;  // over the ranks that route tokens of the same sequences
  std::unique_ptr<ExpertStacks> stacks;
  ExpertPlaces places;
};

// Experts that are all on this rank.
class DenseExperts : public Experts {
 public:
  explicit DenseExperts(ExpertsParts parts);
  at::Tensor forward(const at::Tensor& x, const StepContext& context,
                     const std::function<void()>& meanwhile) override;

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
  // Of the tokens of the micro-batch here, [batch * sequence], the index of the first that is
  // routed here; the others follow it.
  virtual int64_t first_token(const StepContext& /*context*/) const { return 0; }
  // rows: [rows, hidden] in the order of the experts' places; counts: rows of each place. Returns
  // the experts' results in that order.
  virtual at::Tensor through_experts(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                     const StepContext& context,
                                     const std::function<void()>& meanwhile) const {
    if (meanwhile) meanwhile();
    return parts_.stacks->compute(rows, counts, context, nullptr);
  }
  const ExpertStacks& stacks() const { return *parts_.stacks; }

 private:
  at::Tensor places_of(const at::Tensor& experts);
  std::vector<int64_t> by_expert(const std::vector<int64_t>& of_places) const;
  void record(const Routing& routing, const std::vector<int64_t>& counts,
              const StepContext& context) const;

  ExpertsParts parts_;
  // Place of each expert, and `experts` for a choice that was dropped; undefined: as numbered.
  at::Tensor place_of_expert_;
  std::vector<int64_t> expected_;  // ExpertPlaces::expected by place
};

}  // namespace colossal::nn
