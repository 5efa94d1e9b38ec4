#include "colossal/parallel/expert/sharded_experts.h"

#include "colossal/layout/partition.h"
#include "colossal/layout/runs.h"
#include "colossal/parallel/expert/whole_rows.h"

namespace colossal::parallel {

at::Tensor ShardedExperts::through_experts(const at::Tensor& rows,
                                           const std::vector<int64_t>& counts) const {
  return RoutedRows(rows, counts, ranks_)
      .through([this](const at::Tensor& received, const std::vector<int64_t>& counts_here) {
        return stacks().compute(received, counts_here);
      });
}

at::Tensor ExpertsOfCopiedTokens::tokens_of(const at::Tensor& x,
                                            const nn::StepContext& context) const {
  return take_rows(x.flatten(0, -2), share_of(context));
}

at::Tensor ExpertsOfCopiedTokens::activation_of(const at::Tensor& results, const at::Tensor& x,
                                                const nn::StepContext& context) const {
  return collect_rows(results, share_of(context)).view(x.sizes());
}

int64_t ExpertsOfCutFeatures::first_token(const nn::StepContext& context) const {
  const Range sequences = batch_.here(context.batch);
  return sequences.begin * context.sequence +
         share_of(sequences.size() * context.sequence).here().begin;
}

at::Tensor ExpertsOfCutFeatures::tokens_of(const at::Tensor& x,
                                           const nn::StepContext& /*context*/) const {
  const at::Tensor tokens = x.flatten(0, -2);
  return whole_rows(tokens, share_of(tokens.size(0)), Shares::even(group_, hidden_));
}

at::Tensor ExpertsOfCutFeatures::activation_of(const at::Tensor& results, const at::Tensor& x,
                                               const nn::StepContext& /*context*/) const {
  const int64_t tokens = x.size(0) * x.size(1);
  return whole_columns(results, share_of(tokens), Shares::even(group_, hidden_)).view(x.sizes());
}

nn::Placement ExpertBuilder::of_router() const {
  if (context_.strategy().tp == 1) return whole();
  return {.reduction = &context_.stage_group()};
}

nn::Placement ExpertBuilder::of_experts(const nn::ExpertsOptions& options, StackKind kind) const {
  if (context_.strategy().expert_ranks() == 1) return of_router();
  const ExpertRanks ranks = expert_ranks();
  nn::Placement placement{.held = {{}, {}, {}}, .reduction = &context_.same_experts_group()};
  const size_t inner = kind == StackKind::to_inner ? 1 : 2;
  append(placement.held[0], ranks.share_out(options.router.experts).range(ranks.experts.rank()));
  append(placement.held[inner],
         Partition(options.inner, ranks.parts.size()).range(ranks.parts.rank()));
  append(placement.held[3 - inner], {0, options.hidden});
  return placement;
}

std::unique_ptr<nn::Experts> ExpertBuilder::make_experts(nn::ExpertsParts parts,
                                                         const nn::ExpertsOptions& /*options*/) {
  return std::make_unique<ShardedExperts>(std::move(parts), expert_ranks());
}

}  // namespace colossal::parallel
