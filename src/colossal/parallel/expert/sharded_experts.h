// Mixture-of-experts layers whose experts are divided among ranks (D. Lepikhin et al. 2020,
// "GShard"). Each token is routed by one rank, which sends it to the ranks that hold its experts.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "colossal/layout/runs.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/nn/experts.h"
#include "colossal/parallel/batch_cut.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/expert/expert_copies.h"
#include "colossal/parallel/expert/routed_rows.h"

namespace colossal::parallel {

// The ranks that hold the experts, and which experts are copied during training.
struct ExpertSharding {
  ExpertRanks ranks;
  CopyRule copies;
};

class ShardedExperts : public nn::LocalExperts {
 public:
  // Throws ConfigError if sharding.copies asks for copies and the experts cannot be copied
  // (nn::ExpertStacks::can_be_copied()).
  ShardedExperts(nn::ExpertsParts parts, ExpertSharding sharding);

 protected:
  at::Tensor run_experts(const at::Tensor& rows, const std::vector<int64_t>& counts,
                         const nn::StepContext& context,
                         const std::function<void()>& meanwhile) const override;

 private:
  at::Tensor run_with_copies(const at::Tensor& rows, const std::vector<int64_t>& counts,
                             const RowsByRank& all, const std::vector<int64_t>& copied,
                             const nn::StepContext& context,
                             const std::function<void()>& meanwhile) const;

  ExpertRanks ranks_;
  CopyRule rule_;
};

// For tokens that are divided as evenly as possible among the ranks of `group`: each rank has and
// routes its own.
class ExpertsOfDividedTokens : public ShardedExperts {
 public:
  ExpertsOfDividedTokens(nn::ExpertsParts parts, ExpertSharding sharding, const comm::Group& group)
      : ShardedExperts(std::move(parts), sharding), group_(group) {}

 protected:
  int64_t first_token(const nn::StepContext& context) const override {
    return share_of(context).here().begin;
  }
  Shares share_of(const nn::StepContext& context) const {
    return Shares::even(group_, context.batch * context.sequence);
  }

 private:
  const comm::Group& group_;
};

// For tokens that all ranks of `group` have: each rank routes its share of them, and all get the
// results of all.
class ExpertsOfReplicatedTokens : public ExpertsOfDividedTokens {
 public:
  using ExpertsOfDividedTokens::ExpertsOfDividedTokens;

 protected:
  at::Tensor tokens_of(const at::Tensor& x, const nn::StepContext& context) const override;
  at::Tensor activation_of(const at::Tensor& results, const at::Tensor& x,
                           const nn::StepContext& context) const override;
};

// For tokens whose features are divided among the ranks of `group`: each rank receives all features
// of its share of the tokens and routes these.
class ExpertsOfDividedFeatures : public ShardedExperts {
 public:
  // batch: which sequences the ranks of `group` have.
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
  Shares share_of(int64_t tokens) const { return Shares::even(group_, tokens); }

  const comm::Group& group_;
  BatchCut batch_;
  int64_t hidden_;
};

// The base of the builders of all tensor modes: places experts and routers on ranks. No two ranks
// of a stage route the same token, so routers' gradients are summed over all ranks of the stage.
class ExpertBuilder : public nn::DenseBuilder {
 public:
  ExpertBuilder(const ParallelContext& context, nn::MakeAttention make_attention,
                int64_t table_rows)
      : DenseBuilder(std::move(make_attention), table_rows), context_(context) {}

 protected:
  nn::SumOverRanks sum_over_ranks() const override;
  nn::Placement of_router() const override;
  nn::Placement of_experts(const ExpertStack& stack) const override;
  nn::Placement of_expert_adapter(const ExpertFactor& factor) const override;
  int expert_parts() const override;
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
  // Returns Strategy::expert_rows of a layer; empty: unknown.
  std::vector<int64_t> observed_rows(int64_t layer) const;
  Runs experts_here(int64_t layer, int64_t experts) const;
  const ParallelContext& context_;
};

}  // namespace colossal::parallel
