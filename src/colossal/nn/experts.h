// A mixture-of-experts layer on one rank (N. Shazeer et al. 2017, "Outrageously Large Neural
// Networks"). A router chooses a few of many MLPs, the experts, for each token. The layer's output
// is the sum of the chosen experts' outputs, weighted by the router. A row is the hidden state of
// one token for one of its chosen experts. Layers with experts on several ranks (parallel/expert/)
// derive from LocalExperts.
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
#include "colossal/ops/device_table.h"

namespace colossal::nn {

// Lets a caller replace the weights with which a layer computes. ExpertStacks::compute() passes
// each stacked weight or bias, [experts on this rank, ..], and computes with the returned tensor. A
// null OnUse leaves the weights unchanged. Packed and quantized weights are not passed.
using OnUse = std::function<at::Tensor(const at::Tensor& weight)>;

// The low-rank adapters of a layer's experts.
struct ExpertAdapters {
  // first: of gate and up; second: of down.
  ExpertAdapter first, second;

  bool none() const { return !first && !second; }
};

// The experts of a layer that are on this rank. Experts are gated MLPs of equal size; their weights
// are stacked.
class ExpertStacks {
 public:
  virtual ~ExpertStacks() = default;
  // Applies the experts to their rows. rows: [rows, hidden], sorted by expert; counts: number of
  // rows of each expert on this rank. Returns [rows, hidden]. Runs its operators even if there are
  // no rows: autograd then records the same graph on all ranks, and every rank takes part in the
  // exchange of rows in the backward pass.
  virtual at::Tensor compute(const at::Tensor& rows, const std::vector<int64_t>& counts,
                             const StepContext& context, const OnUse& on_use) const = 0;
  // Returns whether another rank can compute these experts from copies of their weights, by
  // compute_with(). True if the weights are neither packed nor quantized and there are no adapters.
  virtual bool can_be_copied() const = 0;
  // Applies experts of this layer that are on other ranks to `rows`, with copies of their weights.
  // weights: stacked weights and biases of the copied experts, in the order in which compute()
  // passes weights to on_use. rows: [rows, hidden], sorted by expert; counts: number of rows of
  // each copied expert. Returns [rows, hidden].
  virtual at::Tensor compute_with(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                  const std::vector<at::Tensor>& weights) const = 0;
};

// Experts with one parameter per matrix: gate and up are [experts, inner, hidden], down is
// [experts, hidden, inner].
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

// Experts in the layout of GPT-OSS (OpenAI 2025). gate_up is [experts, hidden, 2 * inner]: columns
// of gate and up alternate. down is [experts, inner, hidden]. The biases are gate_up_bias [experts,
// 2 * inner] and down_bias [experts, hidden].
class InterleavedStacks : public ExpertStacks {
 public:
  struct Parameters {
    ParameterHandle gate_up, gate_up_bias, down, down_bias;
  };
  // parts: number of ranks that divide the inner features of each expert. The caller sums the
  // results of these ranks; each of them therefore adds 1 / parts of down_bias.
  InterleavedStacks(Parameters parameters, ExpertAdapters adapters, const ops::ClampedGate& gate,
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

// The assignment of a layer's experts to ranks. The experts are listed in an order; a place is an
// index in this list, and each rank holds the experts of consecutive places.
struct ExpertPlaces {
  std::vector<int64_t> order;  // the index of the expert at each place; empty: place i has expert i
  // For dry runs: relative number of rows of each expert, by expert index; empty: equal numbers.
  std::vector<int64_t> expected;
};

// What a mixture-of-experts layer is made of.
struct ExpertsParts {
  int64_t layer = 0;  // index of the block
  Router router;
  // See GatherTokenRows in expert_capacity.h; used only if the experts have a capacity.
  GatherTokenRows gather_token_rows;
  std::unique_ptr<ExpertStacks> stacks;  // the experts on this rank
  ExpertPlaces places;
};

// A mixture-of-experts layer with all experts on this rank. Derived classes override the protected
// functions for experts on several ranks.
class LocalExperts : public Experts {
 public:
  explicit LocalExperts(ExpertsParts parts);
  // Returns the layer's output for x [.., hidden], in x's shape. meanwhile: other computation,
  // which forward() calls once; if experts are on other ranks, while rows are sent to them. Null:
  // none.
  at::Tensor forward(const at::Tensor& x, const StepContext& context,
                     const std::function<void()>& meanwhile) override;

 protected:
  // Returns the tokens of activation x that this rank routes, [tokens, hidden].
  virtual at::Tensor tokens_of(const at::Tensor& x, const StepContext& /*context*/) const {
    return x.flatten(0, -2);
  }
  // Returns an activation with the layout of x. results: the layer's output for the tokens that
  // tokens_of() returned, [tokens, hidden].
  virtual at::Tensor activation_of(const at::Tensor& results, const at::Tensor& x,
                                   const StepContext& /*context*/) const {
    return results.view(x.sizes());
  }
  // Returns the index of the first token that this rank routes, among the flattened tokens
  // [context.tokens().batch * context.tokens().sequence]. The tokens that it routes are
  // consecutive; ranks of tp may route the others.
  virtual int64_t first_token(const StepContext& /*context*/) const { return 0; }
  // Applies the experts, which may be on any rank, to this rank's rows; calls `meanwhile`, which
  // forward() was given, once if it is not null. rows: [rows, hidden], sorted by the place of their
  // expert; counts: number of rows for the expert at each place. Returns [rows, hidden] in the
  // order of `rows`.
  virtual at::Tensor run_experts(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                 const StepContext& context,
                                 const std::function<void()>& meanwhile) const {
    if (meanwhile) meanwhile();
    return parts_.stacks->compute(rows, counts, context, nullptr);
  }
  const ExpertStacks& stacks() const { return *parts_.stacks; }

 private:
  // Replaces each expert index in `experts` by the expert's place.
  at::Tensor places_of(const at::Tensor& experts) const;
  // Converts numbers of rows, ordered by place, to numbers of rows ordered by expert index.
  std::vector<int64_t> by_expert(const std::vector<int64_t>& of_places) const;
  // Appends this layer to context.services.router_records.
  void record(const Routing& routing, const std::vector<int64_t>& counts,
              const StepContext& context) const;

  ExpertsParts parts_;
  // [experts + 1] int64: the place of each expert; the last element is the number of experts, which
  // stands for a dropped choice. Undefined: expert i is at place i.
  ops::DeviceTable place_of_expert_;
  std::vector<int64_t> expected_;  // ExpertPlaces::expected, by place
};

}  // namespace colossal::nn
