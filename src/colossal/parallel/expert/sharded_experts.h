// Mixture-of-experts layers whose experts are divided among ranks (expert parallelism; D. Lepikhin
// et al. 2020, "GShard"), and the base of the builders that make them. Each token is routed by one
// rank, which sends it to the ranks that hold its experts. nn::LocalExperts and nn::DenseBuilder
// document the overridden functions. All groups must outlive the layers.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "colossal/layout/runs.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/nn/experts.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/expert/expert_copies.h"
#include "colossal/parallel/expert/routed_rows.h"
#include "colossal/parallel/tensor/batch_cut.h"

namespace colossal::parallel {

// The ranks that hold the experts, and which experts are copied during training.
struct ExpertSharding {
  ExpertRanks ranks;
  CopyRule copies;
};

// For tp = 1: each rank has all features of its tokens and routes all of them. Base of the layers
// below, which are for other layouts of the activation.
class ShardedExperts : public nn::LocalExperts {
 public:
  // parts.stacks: the experts on this rank. Throws ConfigError if sharding.copies.most > 0 and
  // parts.stacks->can_be_copied() is false.
  ShardedExperts(nn::ExpertsParts parts, ExpertSharding sharding);

 protected:
  at::Tensor run_experts(const at::Tensor& rows, const std::vector<int64_t>& counts,
                         const nn::StepContext& context,
                         const std::function<void()>& meanwhile) const override;

 private:
  // Does the work of run_experts() if experts are copied. all: the result of
  // gather_rows_of_experts(); copied: the places (nn::ExpertPlaces) of the copied experts.
  at::Tensor run_with_copies(const at::Tensor& rows, const std::vector<int64_t>& counts,
                             const RowsByRank& all, const std::vector<int64_t>& copied,
                             const nn::StepContext& context,
                             const std::function<void()>& meanwhile) const;

  ExpertRanks ranks_;
  CopyRule rule_;
};

// For activations whose tokens are divided among the ranks of `group` as evenly as possible (1d
// with tp_sequence). Each rank routes the tokens that it has.
class ExpertsOfDividedTokens : public ShardedExperts {
 public:
  ExpertsOfDividedTokens(nn::ExpertsParts parts, ExpertSharding sharding, const comm::Group& group)
      : ShardedExperts(std::move(parts), sharding), group_(group) {}

 protected:
  int64_t first_token(const nn::StepContext& context) const override {
    return share_of(context).here().begin;
  }
  // Returns how the tokens that the ranks of `group` have together are divided among them.
  Shares share_of(const nn::StepContext& context) const {
    return Shares::even(group_, context.tokens().batch * context.tokens().sequence);
  }

 private:
  const comm::Group& group_;
};

// For activations that all ranks of `group` have whole (1d without tp_sequence). The ranks divide
// the tokens among them as evenly as possible, each routes its own, and all ranks get the results
// of all tokens.
class ExpertsOfReplicatedTokens : public ExpertsOfDividedTokens {
 public:
  using ExpertsOfDividedTokens::ExpertsOfDividedTokens;

 protected:
  at::Tensor tokens_of(const at::Tensor& x, const nn::StepContext& context) const override;
  at::Tensor activation_of(const at::Tensor& results, const at::Tensor& x,
                           const nn::StepContext& context) const override;
};

// For activations whose features are divided among the ranks of `group` (2d, 2.5d, 3d). The ranks
// divide their tokens among them as evenly as possible; each receives all features of its tokens
// and routes them.
class ExpertsOfDividedFeatures : public ShardedExperts {
 public:
  // batch: the sequences that the ranks of `group` have. hidden: features over all ranks.
  ExpertsOfDividedFeatures(nn::ExpertsParts parts, ExpertSharding sharding,
                           const comm::Group& group, BatchCut batch, int64_t hidden)
      : ShardedExperts(std::move(parts), sharding),
        group_(group),
        batch_(std::move(batch)),
        hidden_(hidden) {}

 protected:
  int64_t first_token(const nn::StepContext& context) const override;
  at::Tensor tokens_of(const at::Tensor& x, const nn::StepContext& context) const override;
  at::Tensor activation_of(const at::Tensor& results, const at::Tensor& x,
                           const nn::StepContext& context) const override;

 private:
  // Returns how `tokens` tokens are divided among the ranks of `group`.
  Shares share_of(int64_t tokens) const { return Shares::even(group_, tokens); }

  const comm::Group& group_;
  BatchCut batch_;
  int64_t hidden_;
};

// The builder for tp = 1, and the base of the builders of all tensor modes: it divides experts
// among ranks. No two ranks of a pipeline stage route the same token, so the gradients of routers
// are summed over all ranks of the stage.
class ExpertBuilder : public nn::DenseBuilder {
 public:
  // See nn::DenseBuilder for make_attention and table_rows. `context` must outlive the builder and
  // its layers.
  ExpertBuilder(const ParallelContext& context, nn::MakeAttention make_attention,
                int64_t table_rows)
      : DenseBuilder(std::move(make_attention), table_rows), context_(context) {}

 protected:
  nn::SumOverRanks sum_over_ranks() const override;
  nn::Placement used_alike() const override;
  nn::Placement of_router() const override;
  nn::Placement of_experts(const ExpertStack& stack) const override;
  nn::Placement of_expert_adapter(const ExpertAdapterMatrix& factor) const override;
  int ranks_per_expert() const override;
  nn::ExpertPlaces expert_places(const nn::ExpertsOptions& options) const override;
  nn::GatherTokenRows gather_token_rows() const override;
  std::unique_ptr<nn::Experts> make_experts(nn::ExpertsParts parts,
                                            const nn::ExpertsOptions& options) override;
  ExpertRanks expert_ranks() const {
    return {context_.expert_group(), context_.expert_parts_group()};
  }
  ExpertSharding expert_sharding() const {
    return {
        expert_ranks(),
        {.most = context_.strategy().expert_copies, .rows = context_.strategy().expert_copy_rows}};
  }
  const ParallelContext& context() const { return context_; }

 private:
  // Returns Strategy::expert_rows of a layer: the number of rows of each expert in an earlier run,
  // by the expert's number in the model. Empty if the numbers of rows are unknown.
  std::vector<int64_t> observed_rows(int64_t layer) const;
  // Returns the numbers in the model, not the places, of the experts on this rank, in the order of
  // their places. experts: number of experts of the layer.
  Runs experts_here(int64_t layer, int64_t experts) const;
  const ParallelContext& context_;
};

}  // namespace colossal::parallel
