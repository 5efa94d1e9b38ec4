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

// Called with each stacked weight [experts on this rank, ..] when a layer uses it; the layer
// computes with the tensor that it returns. Null: the layer computes with the weight.
using OnUse = std::function<at::Tensor(const at::Tensor& weight)>;

// The adapters of a layer's experts. first: of gate and up; second: of down.
struct ExpertAdapters {
  ExpertAdapter first, second;

  bool none() const { return !first && !second; }
};

// The experts of a layer on this rank: gated MLPs of equal size, with their weights stacked.
class ExpertStacks {
 public:
  virtual ~ExpertStacks() = default;
  // Computes the experts. rows: [rows, hidden], sorted by expert; counts: number of rows of each
  // expert on this rank. Returns [rows, hidden]. It runs its operators with no rows, too, so that
  // autograd records them and backward reaches the exchange of rows on every rank.
  virtual at::Tensor compute(const at::Tensor& rows, const std::vector<int64_t>& counts,
                             const StepContext& context, const OnUse& on_use) const = 0;
  // Whether another rank can compute these experts from copies of their weights (compute_with()):
  // only if the weights are neither packed nor quantized, and there are no adapters.
  virtual bool can_be_copied() const = 0;
  // Like compute(), for other experts of this layer, copied from their ranks. weights: the stacked
  // weights of these experts, in the order in which compute() passes its own to on_use; counts:
  // number of rows of each of these experts.
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
  // parts: number of ranks that divide the inner features of each expert. The caller sums their
  // results, so each rank adds 1 / parts of the bias of down.
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

// Where the experts of a layer are: each expert has a place, a number from 0, and each rank has the
// experts of one run of places.
struct ExpertPlaces {
  std::vector<int64_t> order;     // the expert at each place; empty: place i has expert i
  std::vector<int64_t> expected;  // rows of each expert (by index) in dry runs; empty: all alike
};

struct ExpertsParts {
  int64_t layer = 0;  // index of the block
  Router router;
  // Gathers rows over the ranks that route tokens of the same sequences (expert_capacity.h); null:
  // only this rank routes them.
  GatherTokenRows gather_token_rows;
  std::unique_ptr<ExpertStacks> stacks;
  ExpertPlaces places;
};

// A mixture-of-experts layer with all experts on this rank.
class LocalExperts : public Experts {
 public:
  explicit LocalExperts(ExpertsParts parts);
  at::Tensor forward(const at::Tensor& x, const StepContext& context,
                     const std::function<void()>& meanwhile) override;

 protected:
  // tokens_of() returns the tokens of activation x that this rank routes, [tokens, hidden].
  // activation_of() makes an activation with the layout of x from the results for these tokens.
  virtual at::Tensor tokens_of(const at::Tensor& x, const StepContext& /*context*/) const {
    return x.flatten(0, -2);
  }
  virtual at::Tensor activation_of(const at::Tensor& results, const at::Tensor& x,
                                   const StepContext& /*context*/) const {
    return results.view(x.sizes());
  }
  // Index, in the micro-batch [batch * sequence] of this rank, of the first token that this rank
  // routes; its other tokens follow that one.
  virtual int64_t first_token(const StepContext& /*context*/) const { return 0; }
  // Runs the experts of all ranks on this rank's rows, and `meanwhile` once if not null. rows:
  // [rows, hidden], sorted by the place of their expert; counts: number of rows for the expert at
  // each place. Returns [rows, hidden] in the order of `rows`.
  virtual at::Tensor run_experts(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                 const StepContext& context,
                                 const std::function<void()>& meanwhile) const {
    if (meanwhile) meanwhile();
    return parts_.stacks->compute(rows, counts, context, nullptr);
  }
  const ExpertStacks& stacks() const { return *parts_.stacks; }

 private:
  // Returns the place of each expert in `experts`.
  at::Tensor places_of(const at::Tensor& experts);
  // Turns counts by place into counts by expert.
  std::vector<int64_t> by_expert(const std::vector<int64_t>& of_places) const;
  // Appends this layer to context.router_records.
  void record(const Routing& routing, const std::vector<int64_t>& counts,
              const StepContext& context) const;

  ExpertsParts parts_;
  // Place of each expert. One more entry, at the number of experts, maps that number, which stands
  // for a dropped choice, to itself. Undefined: expert i is at place i.
  at::Tensor place_of_expert_;
  std::vector<int64_t> expected_;  // ExpertPlaces::expected, by place
};

}  // namespace colossal::nn
