// A mixture-of-experts layer: each token passes through a few of many MLPs, and the results are
// summed with the router's weights (N. Shazeer et al. 2017, "Outrageously Large Neural Networks").
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

// Called with each stacked weight [experts on this rank, ..] when it is used; the layer computes
// with the returned tensor. Null: the weight itself.
using OnUse = std::function<at::Tensor(const at::Tensor& weight)>;

// first: adapters of gate and up; second: adapters of down.
struct ExpertAdapters {
  ExpertAdapter first, second;

  bool none() const { return !first && !second; }
};

// Gated MLPs of equal size: the experts on this rank.
class ExpertStacks {
 public:
  virtual ~ExpertStacks() = default;
  // Computes the experts. rows: [rows, hidden], sorted by expert; counts: number of rows of each
  // expert on this rank. Returns [rows, hidden]. With no rows it still runs operators that autograd
  // records.
  virtual at::Tensor compute(const at::Tensor& rows, const std::vector<int64_t>& counts,
                             const StepContext& context, const OnUse& on_use) const = 0;
  // Whether compute_with() gives the same results as compute(): the weights are neither packed nor
  // quantized, and there are no adapters.
  virtual bool can_be_copied() const = 0;
  // Like compute(), with the given weights of other experts, in the order in which compute() uses
  // its own.
  virtual at::Tensor compute_with(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                  const std::vector<at::Tensor>& weights) const = 0;
};

// One parameter per matrix: gate and up are [experts, inner, hidden], down is [experts, hidden,
// inner].
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

// The layout of GPT-OSS (OpenAI 2025): gate and up are one parameter [experts, hidden, 2 * inner]
// whose columns alternate, down is [experts, inner, hidden]. Both have biases, [experts, 2 * inner]
// and [experts, hidden].
class PairedStacks : public ExpertStacks {
 public:
  struct Parameters {
    ParameterHandle gate_up, gate_up_bias, down, down_bias;
  };
  // parts: number of ranks that divide the inner features of each expert; their results are summed.
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

// The order in which the experts of a layer are placed on ranks.
struct ExpertPlaces {
  std::vector<int64_t> order;     // the expert at each place; empty: in order of index
  std::vector<int64_t> expected;  // rows of each expert in dry runs; empty: equal numbers
};

struct ExpertsParts {
  int64_t layer = 0;  // index of the block
  Router router;
  // Over the ranks that route tokens of the same sequences; null: this rank alone.
  ShareRows share_rows;
  std::unique_ptr<ExpertStacks> stacks;
  ExpertPlaces places;
};

// A mixture-of-experts layer with all experts on this rank.
class DenseExperts : public Experts {
 public:
  explicit DenseExperts(ExpertsParts parts);
  at::Tensor forward(const at::Tensor& x, const StepContext& context,
                     const std::function<void()>& meanwhile) override;

 protected:
  // tokens_of() returns the tokens of activation x that this rank routes, [tokens, hidden].
  // activation_of() turns their results into an activation of the same layout as x.
  virtual at::Tensor tokens_of(const at::Tensor& x, const StepContext& /*context*/) const {
    return x.flatten(0, -2);
  }
  virtual at::Tensor activation_of(const at::Tensor& results, const at::Tensor& x,
                                   const StepContext& /*context*/) const {
    return results.view(x.sizes());
  }
  // Index, in the micro-batch [batch * sequence] of this rank, of the first token that this rank
  // routes; the others follow it.
  virtual int64_t first_token(const StepContext& /*context*/) const { return 0; }
  // Runs the experts. rows: [rows, hidden] in the order of the experts' places; counts: number of
  // rows of each place. Returns the results in the same order.
  virtual at::Tensor run_experts(const at::Tensor& rows, const std::vector<int64_t>& counts,
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
  // Place of each expert; the last entry maps the index of a dropped choice, `experts`, to itself.
  // Undefined: the place is the index.
  at::Tensor place_of_expert_;
  std::vector<int64_t> expected_;  // ExpertPlaces::expected, by place
};

}  // namespace colossal::nn
