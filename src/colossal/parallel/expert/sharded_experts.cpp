#include "colossal/parallel/expert/sharded_experts.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "colossal/base/error.h"
#include "colossal/comm/group.h"
#include "colossal/layout/expert_places.h"
#include "colossal/layout/partition.h"
#include "colossal/layout/runs.h"
#include "colossal/nn/router_records.h"
#include "colossal/ops/expert_order.h"
#include "colossal/parallel/expert/whole_rows.h"
#include "colossal/parallel/sequence/positions.h"

namespace colossal::parallel {

namespace {

// Returns how many rows each rank has. On the meta device the counts are unknown: assumes that all
// ranks have as many as this rank.
std::vector<int64_t> rows_of_ranks(const at::Tensor& rows, const comm::Group& group) {
  const std::vector<int64_t> ones(group.size(), 1);
  const at::Tensor counts =
      at::full({group.size()}, rows.size(0), at::TensorOptions(at::kLong).device(group.device()));
  comm::all_gather(counts, ones, group, comm::Reason::expert);
  if (rows.is_meta()) return std::vector<int64_t>(group.size(), rows.size(0));
  const at::Tensor here = comm::on_host(counts, group);
  const auto* numbers = here.const_data_ptr<int64_t>();
  return {numbers, numbers + group.size()};
}

void gather_over(const comm::Group& group, nn::GatheredTokenRows& shared) {
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

// Adds up the rows of the ranks that hold parts of the same experts. Returns one list for each rank
// of ranks.experts.
RowsByRank over_parts(const RowsByRank& all, const ExpertRanks& ranks) {
  RowsByRank sums(all.begin(), all.begin() + ranks.experts.size());
  for (size_t i = sums.size(); i < all.size(); ++i) {
    std::vector<int64_t>& sum = sums[i % sums.size()];
    std::ranges::transform(sum, all[i], sum.begin(), std::plus());
  }
  return sums;
}

// Returns the rows for this rank's experts, from each rank of ranks.experts.
RowsByRank for_experts_here(const RowsByRank& all, const ExpertRanks& ranks) {
  const int size = ranks.experts.size();
  const Range here = ranks.divide_experts(std::ssize(all[0])).range(ranks.experts.rank());
  RowsByRank received;
  for (int rank = 0; rank < size; ++rank) {
    const auto begin = all[ranks.parts.rank() * size + rank].begin();
    received.emplace_back(begin + here.begin, begin + here.end);
  }
  return received;
}

// Returns the rows of copied experts, of this rank and of the ranks that hold the other parts of
// the same experts.
RowsByRank of_copied(const RowsByRank& all, const std::vector<int64_t>& copied,
                     const ExpertRanks& ranks) {
  RowsByRank rows;
  for (int part = 0; part < ranks.parts.size(); ++part) {
    std::vector<int64_t>& of_part = rows.emplace_back();
    const std::vector<int64_t>& counts = all[part * ranks.experts.size() + ranks.experts.rank()];
    for (const int64_t expert : copied) of_part.push_back(counts[expert]);
  }
  return rows;
}

// Separates rows, sorted by expert, into rows of copied experts and all others; merges them again.
class SplitOrder {
 public:
  SplitOrder(const std::vector<int64_t>& counts, const std::vector<int64_t>& copied,
             at::Device device) {
    std::vector<int64_t> travelling, staying;
    int64_t row = 0;
    for (int64_t expert = 0; expert < std::ssize(counts); ++expert) {
      std::vector<int64_t>& rows =
          std::ranges::binary_search(copied, expert) ? staying : travelling;
      for (int64_t i = 0; i < counts[expert]; ++i) rows.push_back(row++);
    }
    sizes_ = {std::ssize(travelling), std::ssize(staying)};
    travelling.insert(travelling.end(), staying.begin(), staying.end());
    order_ = at::tensor(travelling, at::kLong);
    inverse_ = at::empty_like(order_);
    inverse_.index_put_({order_}, at::arange(row, at::kLong));
    order_ = order_.to(device);
    inverse_ = inverse_.to(device);
  }

  std::pair<at::Tensor, at::Tensor> split(const at::Tensor& rows) const {
    const std::vector<at::Tensor> parts =
        at::split_with_sizes(ops::permuted_rows(rows, order_, inverse_), sizes_);
    return {parts[0], parts[1]};
  }
  at::Tensor join(const at::Tensor& travelling, const at::Tensor& staying) const {
    return ops::permuted_rows(at::cat({travelling, staying}), inverse_, order_);
  }

 private:
  std::vector<int64_t> sizes_;
  at::Tensor order_, inverse_;
};

}  // namespace

ShardedExperts::ShardedExperts(nn::ExpertsParts parts, ExpertSharding sharding)
    : LocalExperts(std::move(parts)), ranks_(sharding.ranks), rule_(sharding.copies) {
  if (rule_.most > 0 && !stacks().can_be_copied()) {
    throw ConfigError(
        fmt::format("parallel.expert_copies = {}: experts with adapters or quantized weights "
                    "cannot be copied; leave expert_copies out, or adapt other linear layers and "
                    "leave adapter.base at its default",
                    rule_.most));
  }
}

at::Tensor ShardedExperts::run_experts(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                       const nn::StepContext& context,
                                       const std::function<void()>& meanwhile) const {
  RowsByRank all;
  if (rule_.most > 0 && context.training && ranks_.experts.size() > 1) {
    all = gather_rows_of_experts(counts, ranks_, rows.device());
    const std::vector<int64_t> copied =
        choose_copies(over_parts(all, ranks_), ranks_.divide_experts(std::ssize(counts)), rule_);
    if (context.services.router_records)
      context.services.router_records->layers.back().copies = std::ssize(copied);
    if (!copied.empty()) return run_with_copies(rows, counts, all, copied, context, meanwhile);
  }
  RoutedRows routed = all.empty() ? RoutedRows(rows, counts, ranks_)
                                  : RoutedRows(rows, counts, for_experts_here(all, ranks_), ranks_);
  if (meanwhile) meanwhile();
  return routed.through([&](const at::Tensor& received, const std::vector<int64_t>& counts_here) {
    return stacks().compute(received, counts_here, context, nullptr);
  });
}

// Computes rows of copied experts on this rank and sends the others to the ranks that hold their
// experts.
at::Tensor ShardedExperts::run_with_copies(const at::Tensor& rows,
                                           const std::vector<int64_t>& counts,
                                           const RowsByRank& all,
                                           const std::vector<int64_t>& copied,
                                           const nn::StepContext& context,
                                           const std::function<void()>& meanwhile) const {
  const SplitOrder order(counts, copied, rows.device());
  const auto [travelling, staying] = order.split(rows);
  RowsByRank all_travelling = all;
  for (std::vector<int64_t>& of_rank : all_travelling) {
    for (const int64_t expert : copied) of_rank[expert] = 0;
  }
  const int rank = ranks_.parts.rank() * ranks_.experts.size() + ranks_.experts.rank();
  RoutedRows routed(travelling, all_travelling[rank], for_experts_here(all_travelling, ranks_),
                    ranks_);
  if (meanwhile) meanwhile();
  ExpertCopies copies(copied, ranks_.divide_experts(std::ssize(counts)), ranks_.experts);
  RowExchange results = routed.start_through(
      [&](const at::Tensor& received, const std::vector<int64_t>& counts_here) {
        return stacks().compute(received, counts_here, context,
                                [&](const at::Tensor& weight) { return copies.send(weight); });
      });
  const std::vector<at::Tensor> weights = copies.wait();
  const at::Tensor of_staying = compute_over_parts(
      staying, of_copied(all, copied, ranks_), ranks_.parts,
      [&](const at::Tensor& gathered, const std::vector<int64_t>& counts_of_copied) {
        return stacks().compute_with(gathered, counts_of_copied, weights);
      });
  return order.join(results.wait(), of_staying);
}

at::Tensor ExpertsOfReplicatedTokens::tokens_of(const at::Tensor& x,
                                                const nn::StepContext& context) const {
  return take_rows(x.flatten(0, -2), share_of(context));
}

at::Tensor ExpertsOfReplicatedTokens::activation_of(const at::Tensor& results, const at::Tensor& x,
                                                    const nn::StepContext& context) const {
  return collect_rows(results, share_of(context)).view(x.sizes());
}

int64_t ExpertsOfDividedFeatures::first_token(const nn::StepContext& context) const {
  const Range sequences = batch_.here(context.tokens().batch);
  return sequences.begin * context.tokens().sequence +
         share_of(sequences.size() * context.tokens().sequence).here().begin;
}

at::Tensor ExpertsOfDividedFeatures::tokens_of(const at::Tensor& x,
                                               const nn::StepContext& /*context*/) const {
  const at::Tensor tokens = x.flatten(0, -2);
  return whole_rows(tokens, share_of(tokens.size(0)), Shares::even(group_, hidden_));
}

at::Tensor ExpertsOfDividedFeatures::activation_of(const at::Tensor& results, const at::Tensor& x,
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

int ExpertBuilder::ranks_per_expert() const {
  return context_.strategy().expert_tp;
}

std::vector<int64_t> ExpertBuilder::observed_rows(int64_t layer) const {
  const auto& of_layers = context_.strategy().expert_rows;
  return of_layers.empty() ? std::vector<int64_t>() : of_layers.at(layer);
}

Runs ExpertBuilder::experts_here(int64_t layer, int64_t experts) const {
  const ExpertRanks ranks = expert_ranks();
  const Range places = ranks.divide_experts(experts).range(ranks.experts.rank());
  const std::vector<int64_t> rows = observed_rows(layer);
  Runs here;
  if (rows.empty()) {
    append(here, places);
    return here;
  }
  const std::vector<int64_t> order = place_by_load(rows, ranks.divide_experts(experts));
  for (int64_t place = places.begin; place < places.end; ++place) {
    append(here, {order[place], order[place] + 1});
  }
  return here;
}

nn::ExpertPlaces ExpertBuilder::expert_places(const nn::ExpertsOptions& options) const {
  const std::vector<int64_t> rows = observed_rows(options.layer);
  if (rows.empty()) return {};
  return {.order = place_by_load(rows, expert_ranks().divide_experts(options.router.experts)),
          .expected = rows};
}

nn::GatherTokenRows ExpertBuilder::gather_token_rows() const {
  if (context_.strategy().tp * context_.strategy().sp == 1) return nullptr;
  return [&context = context_](const at::Tensor& rows, int64_t positions) {
    nn::GatheredTokenRows shared{rows};
    if (context.strategy().sp > 1) {
      const at::Tensor of_row = positions_here(positions, context).to(rows.options());
      shared.rows = rows.clone();
      const at::Tensor column = shared.rows.select(1, nn::kPositionColumn);
      column.copy_(of_row.index_select(0, column.to(at::kLong)));
    }
    for (const Axis axis : {Axis::tp, Axis::sp}) gather_over(context.group(axis), shared);
    return shared;
  };
}

nn::Placement ExpertBuilder::used_alike() const {
  const comm::Group& ranks = context_.group(Axis::tp);
  return {.num_replicas = ranks.size(), .replica = ranks.rank()};
}

nn::Placement ExpertBuilder::of_router() const {
  if (context_.strategy().tp == 1) return whole();
  return {.reduction = &context_.stage_group()};
}

nn::Placement ExpertBuilder::of_experts(const ExpertStack& stack) const {
  if (context_.strategy().expert_ranks() == 1) return of_router();
  const ExpertRanks ranks = expert_ranks();
  nn::Placement placement{.reduction = &context_.same_experts_group()};
  if (stack.inner_dim < 0) {  // a bias of the results: every part of an expert holds all of it
    placement.num_replicas = ranks.parts.size();
    placement.replica = ranks.parts.rank();
  }
  for (int64_t dim = 0; dim < std::ssize(stack.shape); ++dim) {
    const int64_t size = stack.shape[dim];
    if (dim == 0) {
      placement.held.push_back(experts_here(stack.layer, size));
      continue;
    }
    Range here{0, size};
    if (dim == stack.inner_dim) {
      const Range inner =
          Partition(size / stack.inner_width, ranks.parts.size()).range(ranks.parts.rank());
      here = {inner.begin * stack.inner_width, inner.end * stack.inner_width};
    }
    append(placement.held.emplace_back(), here);
  }
  return placement;
}

// If every part of an expert holds a whole factor, each part computes a different term of the
// factor's gradient, so the parts are in the reduction group.
nn::Placement ExpertBuilder::of_expert_adapter(const ExpertAdapterMatrix& factor) const {
  if (context_.strategy().expert_ranks() == 1) return of_router();
  const ExpertRanks ranks = expert_ranks();
  const bool is_cut = factor.inner_width > 0;
  nn::Placement placement{.reduction = is_cut ? &context_.same_experts_group()
                                              : &context_.same_experts_and_parts_group()};
  const Runs experts = experts_here(factor.layer, factor.experts);
  // A down factor has rows [expert][rank], an up factor columns [rank][expert].
  std::vector<Range> of_experts, of_features;
  if (factor.is_a) {
    for (const Range& run : experts) {
      append(of_experts, Range{run.begin * factor.rank, run.end * factor.rank});
    }
  } else {
    for (int64_t r = 0; r < factor.rank; ++r) {
      for (const Range& run : experts) {
        append(of_experts, Range{r * factor.experts + run.begin, r * factor.experts + run.end});
      }
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
      factor.is_a ? std::vector{of_experts, of_features} : std::vector{of_features, of_experts};
  return placement;
}

std::unique_ptr<nn::Experts> ExpertBuilder::make_experts(nn::ExpertsParts parts,
                                                         const nn::ExpertsOptions& /*options*/) {
  return std::make_unique<ShardedExperts>(std::move(parts), expert_sharding());
}

}  // namespace colossal::parallel
