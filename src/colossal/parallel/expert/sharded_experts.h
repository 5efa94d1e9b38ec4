// Layers of experts that are divided among ranks (D. Lepikhin et al. 2020, "GShard"): one rank
// routes each token, which travels to the ranks of its experts.
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

// Experts over these ranks, and which of them are copied in training.
struct ExpertSharding {
  ExpertRanks ranks;
  CopyRule copies;
};

class ShardedExperts : public nn::DenseExperts {
 public:
  // ConfigError where experts are to be copied that cannot be.
  ShardedExperts(nn::ExpertsParts parts, ExpertSharding sharding);

 protected:
  at::Tensor run_experts(const at::Tensor& rows, const std::vector<int64_t>& counts,
                         const nn::StepContext& context,
                         const std::function<void()>& meanwhile) const override;

 private:
  at::Tensor through_copies(const at::Tensor& rows, const std::vector<int64_t>& counts,
                            const RowsByRank& all, const std::vector<int64_t>& copied,
                            const nn::StepContext& context,
                            const std::function<void()>& meanwhile) const;

  ExpertRanks ranks_;
  CopyRule rule_;
};

// Each rank of `group` has its share of the tokens, as even as they go.
class ExpertsOfSharedTokens : public ShardedExperts {
 public:
  ExpertsOfSharedTokens(nn::ExpertsParts parts, ExpertSharding sharding, const comm::Group& group)
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

// Of tokens that all ranks of the group have, each routes its share.
class ExpertsOfCopiedTokens : public ExpertsOfSharedTokens {
 public:
  using ExpertsOfSharedTokens::ExpertsOfSharedTokens;

 protected:
  at::Tensor tokens_of(const at::Tensor& x, const nn::StepContext& context) const override;
  at::Tensor activation_of(const at::Tensor& results, const at::Tensor& x,
                           const nn::StepContext& context) const override;
};

// For tokens whose features are divided among the ranks of `group`: each rank routes its share, for
// which it gets all features.
class ExpertsOfCutFeatures : public ShardedExperts {
 public:
  // batch: which sequences these ranks have.
  ExpertsOfCutFeatures(nn::ExpertsParts parts, ExpertSharding sharding, const comm::Group& group,
                       BatchCut batch, int64_t hidden)
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

// The base of the builders of all tensor modes: says where experts and routers lie. Every rank
// routes other tokens, so routers' gradients are summed over all ranks of a stage.
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
  nn::ShareRows share_rows() const override;
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
  std::vector<int64_t> observed_rows(int64_t layer) const;  // empty: unknown
  Runs experts_here(int64_t layer, int64_t experts) const;
  const ParallelContext& context_;
};

}  // namespace colossal::parallel
