#include "colossal/parallel/tensor/tensor_grid_head.h"

#include <algorithm>
#include <utility>

#include "colossal/nn/layer_scope.h"
#include "colossal/ops/loss/divergence.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/tensor/vocabulary.h"

namespace colossal::parallel {
namespace {

using nn::StepContext;

// Counts how many of `wanted`, which ascends, are in each of the shares.
std::vector<int64_t> num_within(const Shares& shares, const at::Tensor& wanted) {
  const auto* tokens = wanted.const_data_ptr<int64_t>();
  const auto* next = tokens;
  std::vector<int64_t> counts;
  for (int64_t end = 0; const int64_t size : shares.sizes) {
    const auto* begin =
        std::exchange(next, std::lower_bound(next, tokens + wanted.numel(), end += size));
    counts.push_back(next - begin);
  }
  return counts;
}

// Gathers a table, or each of its blocks: all features of the rows in this rank's part of the
// vocabulary.
class GridTable final : public ops::BlockCollectives {
 public:
  // rows: [piece of the part][block]. mirror: the two ranks that swap their parts first; null: this
  // rank holds its part.
  GridTable(std::vector<std::vector<Range>> rows, int64_t features, const TensorGrid& grid,
            const comm::Group* mirror)
      : rows_(std::move(rows)), features_(features), grid_(grid), mirror_(mirror) {}

  std::vector<Range> rows(size_t block) const override {
    std::vector<Range> runs;
    for (const std::vector<Range>& piece : rows_) runs.push_back(piece[block]);
    return runs;
  }

  // Differentiable if autograd is on.
  at::Tensor gather(const at::Tensor& part, size_t block) const override {
    const Shares columns = Shares::even(grid_.table_features, features_);
    at::Tensor all = part;
    if (mirror_) all = exchange(all, {rows_.front()[block].size(), columns.mine()}, *mirror_);
    if (grid_.table_pieces) all = gather_rows(all, pieces(block));
    return gather_columns(all, columns);
  }

  at::Tensor reduce_scatter_gradient(const at::Tensor& gradient, at::IntArrayRef sizes,
                                     size_t block) const override {
    at::Tensor part = sum_to_columns(gradient, Shares::even(grid_.table_features, features_));
    if (grid_.table_pieces) part = reduce_scatter_rows(part, pieces(block));
    if (mirror_) part = exchange(part, sizes.vec(), *mirror_);
    return part;
  }

 private:
  Shares pieces(size_t block) const {
    Shares shares{grid_.table_pieces, {}};
    for (const Range& run : rows(block)) shares.sizes.push_back(run.size());
    return shares;
  }

  std::vector<std::vector<Range>> rows_;
  int64_t features_;
  const TensorGrid& grid_;
  const comm::Group* mirror_;
};

// Each rank gathers all features of its tokens (of `within`) and all rows of its part of the
// vocabulary; losses do not gather logits. Law: (n-1) times the own part of each, and the same in
// backward; blocks of the table are gathered again in backward.
class GridHead : public nn::VocabularyHead {
 public:
  GridHead(nn::VocabularyHeadParts parts, GridTable ranks, int64_t hidden, const TensorGrid& grid,
           const comm::Group* mirror)
      : parts_(std::move(parts)),
        ranks_(std::move(ranks)),
        hidden_(hidden),
        grid_(grid),
        mirror_(mirror) {}

  at::Tensor loss_sum(const at::Tensor& x, const at::Tensor& labels,
                      const StepContext& context) override {
    const Range here = grid_.within.batch.here(context.tokens().batch);
    const at::Tensor labels_here = labels.narrow(0, here.begin, here.size()).flatten();
    const ops::VocabularyShard shard = vocabulary_shard(vocabulary(), grid_.within.features);
    nn::LayerScope scope("vocabulary_head");
    const at::Tensor tokens = tokens_of(x, context);
    const ops::LogitOptions options = parts_.logit_options(tokens, context, scope);
    if (parts_.computes_by_blocks(context)) {
      return reduce_from_tensor_parallel(
          ops::linear_cross_entropy(tokens, parts_.table.blocks("vocabulary_head"), labels_here,
                                    vocabulary(), shard.combine, &ranks_, options,
                                    parts_.rows.begin),
          grid_.within.tokens);
    }
    const at::Tensor table = ranks_.gather(parts_.table.whole().use(scope), 0);
    return reduce_from_tensor_parallel(
        ops::linear_cross_entropy(tokens, table, labels_here, shard, options), grid_.within.tokens);
  }

  at::Tensor log_probabilities(const at::Tensor& x, const at::Tensor& labels, double temperature,
                               const StepContext& context) override {
    const Range here = grid_.within.batch.here(context.tokens().batch);
    const at::Tensor labels_here = labels.narrow(0, here.begin, here.size());
    const ops::VocabularyShard shard = vocabulary_shard(vocabulary(), grid_.within.features);
    nn::LayerScope scope("vocabulary_head");
    const at::Tensor tokens = tokens_of(x, context);
    const at::Tensor found =
        ops::linear_log_probabilities(tokens, parts_.table.blocks("vocabulary_head"),
                                      labels_here.flatten(), vocabulary(), shard.combine, &ranks_,
                                      parts_.logit_options(tokens, context, scope, temperature),
                                      parts_.rows.begin)
            .view(labels_here.sizes());
    return all_sequences(found, context);
  }

  at::Tensor logits_here(const at::Tensor& x, double temperature,
                         const StepContext& context) override {
    nn::LayerScope scope("vocabulary_head");
    const at::Tensor tokens = tokens_of(x, context);
    return ops::logits_from_products(logits_of_part(tokens),
                                     parts_.logit_options(tokens, context, scope, temperature));
  }

  at::Tensor divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                         double temperature, const StepContext& context) override {
    const int64_t here = grid_.within.batch.here(context.tokens().batch).size();
    const ops::VocabularyShard shard = vocabulary_shard(vocabulary(), grid_.within.features);
    const at::Tensor found =
        ops::divergence(logits_here(x, temperature, context), teacher, beta, &shard);
    return all_sequences(found.view({here, context.tokens().sequence}), context);
  }

  at::Tensor scores(const at::Tensor& x, const StepContext& context) override {
    const int64_t here = grid_.within.batch.here(context.tokens().batch).size();
    nn::LayerScope scope("vocabulary_head");
    const at::Tensor tokens = tokens_of(x, context);
    const at::Tensor part = ops::logits_from_products(logits_of_part(tokens),
                                                      parts_.logit_options(tokens, context, scope));
    const Range& rows = parts_.rows;
    const at::Tensor all = reduce_from_tensor_parallel(
        at::constant_pad_nd(part, {rows.begin, vocabulary() - rows.end}), grid_.within.features);
    return all_sequences(all.view({here, context.tokens().sequence, vocabulary()}), context);
  }

  at::Tensor logits(const at::Tensor& x, const StepContext& context,
                    const at::Tensor& wanted) override {
    Wanted used = wanted_of(x, context, wanted);
    nn::LayerScope scope("vocabulary_head");
    const at::Tensor products = logits_of_part(used.states);
    if (!context.services.adapted_rows.empty()) {
      StepContext of_these = context;
      of_these.services.adapted_rows = nn::rows_within(context.services.adapted_rows, used.tokens);
      parts_.adapter.add_request_adapters(products, used.states, parts_.rows, used.here, of_these);
    }
    const at::Tensor part =
        ops::logits_from_products(products, parts_.logit_options(used.states, context, scope));
    const at::Tensor rows = gather_columns(part, Shares::even(grid_.within.features, vocabulary()));
    const at::Tensor all = gather_rows(rows, used.of_ranks);
    return wanted.defined()
               ? all
               : all.view({context.tokens().batch, context.tokens().sequence, vocabulary()});
  }

  at::Tensor gathered_states(const at::Tensor& x, const StepContext& context,
                             const at::Tensor& wanted) override {
    const Wanted used = wanted_of(x, context, wanted);
    return gather_rows(used.states, used.of_ranks);
  }

 private:
  // The wanted tokens that this rank holds.
  struct Wanted {
    at::Tensor states;  // [tokens, hidden]
    at::Tensor here;    // indices of `states`, from this rank's first token; undefined: all
    Range tokens;       // this rank's tokens, among the step's
    Shares of_ranks;    // number of wanted tokens at each rank along `tokens` of the grid
  };
  Wanted wanted_of(const at::Tensor& x, const StepContext& context,
                   const at::Tensor& wanted) const {
    Shares shares = grid_.within.tokens_of_ranks(context);
    const Range tokens = shares.here();
    const at::Tensor states = tokens_of(x, context);
    if (!wanted.defined()) return {states, {}, tokens, std::move(shares)};
    shares.sizes = num_within(shares, wanted);
    const at::Tensor here = wanted.narrow(0, shares.here().begin, shares.mine()) - tokens.begin;
    return {nn::wanted_rows(states, here), here, tokens, std::move(shares)};
  }

  int64_t vocabulary() const { return parts_.table.vocabulary(); }

  // Returns the values of all sequences from this rank's values [sequences, ..]. Each rank pads its
  // values with zeros; the sum over the ranks has all values.
  at::Tensor all_sequences(const at::Tensor& found, const StepContext& context) const {
    const Range here = grid_.within.batch.here(context.tokens().batch);
    const auto others = [&](int64_t count) {
      std::vector<int64_t> sizes = found.sizes().vec();
      sizes[0] = count;
      return at::zeros(sizes, found.options().requires_grad(false));
    };
    return reduce_from_tensor_parallel(
        at::cat({others(here.begin), found, others(context.tokens().batch - here.end)}),
        grid_.within.tokens);
  }

  // Returns [tokens, rows of this rank's part of the vocabulary].
  at::Tensor logits_of_part(const at::Tensor& x) const {
    std::vector<std::pair<int64_t, at::Tensor>> runs;  // {first row, logits}
    size_t block = 0;
    parts_.table.blocks("vocabulary_head")([&](const at::Tensor& part, int64_t) {
      const at::Tensor logits = at::linear(x, ranks_.gather(part, block));
      int64_t begin = 0;
      for (const Range& run : ranks_.rows(block++)) {
        runs.emplace_back(run.begin, logits.narrow(1, begin, run.size()));
        begin += run.size();
      }
    });
    // The blocks take rows from all pieces in turn; logits are in the order of the vocabulary.
    std::stable_sort(runs.begin(), runs.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<at::Tensor> parts;
    for (auto& [begin, logits] : runs) parts.push_back(std::move(logits));
    return at::cat(parts, 1);
  }

  // Returns [tokens of `within`, hidden].
  at::Tensor tokens_of(const at::Tensor& x, const StepContext& context) const {
    at::Tensor rows = x.flatten(0, 1);
    const Shares columns = Shares::even(grid_.within.features, hidden_);
    if (mirror_) {
      const int64_t tokens =
          grid_.within.batch.here(context.tokens().batch).size() * context.tokens().sequence;
      rows = exchange(rows, {tokens, columns.mine()}, *mirror_);
    }
    return gather_columns(rows, columns);
  }

  nn::VocabularyHeadParts parts_;
  GridTable ranks_;
  int64_t hidden_;
  const TensorGrid& grid_;
  const comm::Group* mirror_;
};

}  // namespace

std::unique_ptr<nn::VocabularyHead> make_grid_head(nn::VocabularyHeadParts parts,
                                                   std::vector<std::vector<Range>> rows,
                                                   int64_t hidden, const TensorGrid& grid,
                                                   const GridHeadMirrors& mirrors) {
  return std::make_unique<GridHead>(std::move(parts),
                                    GridTable(std::move(rows), hidden, grid, mirrors.table), hidden,
                                    grid, mirrors.activation);
}

}  // namespace colossal::parallel
