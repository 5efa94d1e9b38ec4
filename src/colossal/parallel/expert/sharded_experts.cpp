#include "colossal/parallel/expert/sharded_experts.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <numeric>

#include "colossal/comm/group.h"
#include "colossal/layout/partition.h"
#include "colossal/layout/runs.h"
#include "colossal/parallel/expert/whole_rows.h"
#include "colossal/parallel/sequence/positions.h"

namespace colossal::parallel {

namespace {

// How many rows each rank has; on meta, where nobody knows, as many as this one.
std::vector<int64_t> rows_of_ranks(const at::Tensor& rows, const comm::Group& group) {
  const std::vector<int64_t> ones(group.size(), 1);
  const at::Tensor counts =
      at::full({group.size()}, rows.size(0), at::TensorOptions(at::kLong).device(group.device()));
  comm::all_gather(counts, ones, group, comm::Reason::expert);
  if (rows.is_meta()) return std::vector<int64_t>(group.size(), rows.size(0));
  const at::Tensor here = counts.cpu();
  const auto* numbers = here.const_data_ptr<int64_t>();
  return {numbers, numbers + group.size()};
}

void gather_over(const comm::Group& group, nn::SharedRows& shared) {
  if (group.size() == 1) return;
  const int64_t width = shared.rows.size(1);
  std::vector<int64_t> counts = rows_of_ranks(shared.rows, group);
  const int64_t before = std::accumulate(counts.begin(), counts.begin() + group.rank(), int64_t{0});
  const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const at::Tensor gathered = at::empty({all, width}, shared.rows.options());
  gathered.narrow(0, before, shared.rows.size(0)).copy_(shared.rows);
  for (int64_t& count : counts) count *= width;
  comm::all_gather(gathered.view(-1), counts, group, comm::Reason::expert);
  shared = {gathered, before + shared.first};
}

}  // namespace

at::Tensor ShardedExperts::through_experts(const at::Tensor& rows,
                                           const std::vector<int64_t>& counts,
                                           const nn::StepContext& context) const {
  return RoutedRows(rows, counts, ranks_)
      .through([&](const at::Tensor& received, const std::vector<int64_t>& counts_here) {
        return stacks().compute(received, counts_here, context);
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

nn::SumOverRanks ExpertBuilder::sum_over_ranks() const {
  if (context_.strategy().tp == 1) return nullptr;
  return [&group = context_.group(Axis::tp)](const at::Tensor& flat) {
    comm::all_reduce(flat, group, comm::Reason::tensor);
  };
}

int ExpertBuilder::expert_parts() const {
  return context_.strategy().expert_tp;
}

nn::ShareRows ExpertBuilder::share_rows() const {
  if (context_.strategy().tp * context_.strategy().sp == 1) return nullptr;
  return [&context = context_](const at::Tensor& rows, int64_t positions) {
    nn::SharedRows shared{rows};
    if (context.strategy().sp > 1) {
      const at::Tensor of_row = positions_here(positions, context).to(rows.options());
      shared.rows = rows.clone();
      const at::Tensor column = shared.rows.select(1, nn::kColumnOfRow);
      column.copy_(of_row.index_select(0, column.to(at::kLong)));
    }
    for (const Axis axis : {Axis::tp, Axis::sp}) gather_over(context.group(axis), shared);
    return shared;
  };
}

nn::Placement ExpertBuilder::of_router() const {
  if (context_.strategy().tp == 1) return whole();
  return {.reduction = &context_.stage_group()};
}

nn::Placement ExpertBuilder::of_experts(const ExpertStack& stack) const {
  if (context_.strategy().expert_ranks() == 1) return of_router();
  const ExpertRanks ranks = expert_ranks();
  nn::Placement placement{.reduction = &context_.same_experts_group()};
  if (stack.inner_dim < 0) {  // a bias of the results, which all parts of an expert have
    placement.num_replicas = ranks.parts.size();
    placement.replica = ranks.parts.rank();
  }
  for (int64_t dim = 0; dim < std::ssize(stack.shape); ++dim) {
    const int64_t size = stack.shape[dim];
    Range here{0, size};
    if (dim == 0) here = ranks.share_out(size).range(ranks.experts.rank());
    if (dim == stack.inner_dim) {
      const Range inner =
          Partition(size / stack.inner_width, ranks.parts.size()).range(ranks.parts.rank());
      here = {inner.begin * stack.inner_width, inner.end * stack.inner_width};
    }
    append(placement.held.emplace_back(), here);
  }
  return placement;
}

// Of a factor that each part of an expert has all of, each makes another term of the gradient.
nn::Placement ExpertBuilder::of_expert_adapter(const ExpertFactor& factor) const {
  if (context_.strategy().expert_ranks() == 1) return of_router();
  const ExpertRanks ranks = expert_ranks();
  const bool is_cut = factor.inner_width > 0;
  nn::Placement placement{.reduction = is_cut ? &context_.same_experts_group()
                                              : &context_.same_experts_and_parts_group()};
  const Range experts = ranks.share_out(factor.experts).range(ranks.experts.rank());
  std::vector<Range> of_experts, of_features;
  if (factor.is_down) {
    append(of_experts, Range{experts.begin * factor.rank, experts.end * factor.rank});
  } else {
    for (int64_t r = 0; r < factor.rank; ++r) {
      append(of_experts,
             Range{r * factor.experts + experts.begin, r * factor.experts + experts.end});
    }
  }
  Range features{0, factor.features};
  if (is_cut) {
    const Range inner = Partition(factor.features / factor.inner_width, ranks.parts.size())
                            .range(ranks.parts.rank());
    features = {inner.begin * factor.inner_width, inner.end * factor.inner_width};
  }
  append(of_features, features);
  placement.held =
      factor.is_down ? std::vector{of_experts, of_features} : std::vector{of_features, of_experts};
  return placement;
}

std::unique_ptr<nn::Experts> ExpertBuilder::make_experts(nn::ExpertsParts parts,
                                                         const nn::ExpertsOptions& /*options*/) {
  return std::make_unique<ShardedExperts>(std::move(parts), expert_ranks());
}

}  // namespace colossal::parallel
