#include "colossal/tune/rollout/row_scores.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "colossal/base/error.h"
#include "colossal/comm/group.h"
#include "colossal/data/score_fields.h"
#include "colossal/layout/partition.h"
#include "colossal/parallel/sequence/positions.h"
#include "colossal/serve/stages.h"
#include "colossal/tune/methods/score_head.h"

namespace colossal::tune {
namespace {

// What a model gives each row of a batch: `width` numbers.
struct RowHead {
  int64_t width = 0;
  // Returns this rank's part of them, [rows, width]: the sum over the ranks of sp is the whole.
  std::function<at::Tensor(models::Model& model, const nn::BlockState& state,
                           const data::Batch& batch, const nn::StepContext& context)>
      run;
};

RowHead scores_of(const models::TransformerConfig& config) {
  COLOSSAL_CHECK(config.scores > 0, "a model of family {} without scores", config.family);
  return {config.scores, [](models::Model& model, const nn::BlockState& state,
                            const data::Batch& batch, const nn::StepContext& context) {
            const at::Tensor scores =
                model.score_head().scores(state.output(), context).to(at::kDouble);
            const at::Tensor pooling = batch.find(data::kPooling);
            return (pooling.defined() ? scores * pooling.unsqueeze(-1) : scores).sum(1);
          }};
}

// After the vectors come logit_scale and logit_bias. parts: number of ranks of sp, which are
// summed.
RowHead vectors_of(const models::TextTower& tower, int parts) {
  return {tower.features + 2, [parts](models::Model& model, const nn::BlockState& state,
                                      const data::Batch& batch, const nn::StepContext& context) {
            const models::Embeddings found =
                model.embedding_head().embeddings(state, batch.find(data::kPooling), context);
            const at::Tensor vectors =
                (found.images.defined() ? found.images : found.texts).to(at::kDouble);
            const auto column = [&](const at::Tensor& number) {
              const double value = number.defined() ? number.item<double>() : 0;
              return at::full({vectors.size(0), 1}, value / parts, vectors.options());
            };
            return at::cat({vectors, column(found.logit_scale), column(found.logit_bias)}, 1);
          }};
}

class RowScorer {
 public:
  RowScorer(models::Model& model, const RowHead& head, const MakeBatch& make_batch,
            const RowScoring& options)
      : model_(model),
        head_(head),
        make_batch_(make_batch),
        ranks_(options.ranks),
        strategy_(ranks_ ? ranks_->strategy() : Strategy{}),
        stages_(ranks_),
        part_(ranks_ ? parallel::sequence_part(*ranks_)
                     : nn::SequencePart{.device = options.device}) {}

  // Returns the numbers of these rows, [rows, width], on all ranks.
  at::Tensor score(std::span<const int64_t> rows) {
    const auto count = std::ssize(rows);
    const Range here = ranks_ ? Partition(count, strategy_.dp).range(ranks_->coordinate(Axis::dp))
                              : Range{0, count};
    const at::Tensor all = at::zeros({count, head_.width}, at::kDouble);
    // A replica without rows computes one that does not count: all ranks take part in each pass.
    const at::Tensor found =
        run(here.size() > 0 ? rows.subspan(here.begin, here.size()) : rows.first(1));
    if (found.defined() && here.size() > 0) all.narrow(0, here.begin, here.size()).copy_(found);
    if (!ranks_) return all;
    const at::Tensor sum = all.to(ranks_->device());
    comm::all_reduce(sum, ranks_->world_group(), comm::Reason::control);
    return comm::on_host(sum, ranks_->world_group());
  }

 private:
  // Returns this rank's part of the numbers of the rows of its replica: summed over all ranks of
  // the replica, the parts are the numbers. Undefined: zeros.
  at::Tensor run(std::span<const int64_t> rows) {
    const data::Batch whole = make_batch_(rows);
    const nn::StepContext context = model_.context_of(whole, {}, part_);
    const data::Batch batch = data::local_batch(whole, part_);
    at::Tensor found;
    stages_.run([&](int stage, const at::Tensor& before) {
      const nn::BlockState start =
          stage == 0 ? model_.inputs(batch, context) : nn::BlockState{{before}};
      const Range blocks = strategy_.blocks_of_stage(stage, model_.num_blocks());
      const nn::BlockState state = model_.run_blocks(blocks, start, context);
      if (stage < strategy_.num_stages() - 1) return state.output();
      found = head_.run(model_, state, batch, context).cpu();
      return at::Tensor();
    });
    const bool is_counted = !ranks_ || ranks_->coordinate(Axis::tp) == 0;  // tp has equal numbers
    return is_counted ? found : at::Tensor();
  }

  models::Model& model_;
  const RowHead& head_;
  const MakeBatch& make_batch_;
  const ParallelContext* ranks_;
  Strategy strategy_;
  serve::Stages stages_;
  nn::SequencePart part_;
};

std::vector<int64_t> numbers_to(int64_t count) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return numbers;
}

// Returns the numbers of rows, which are computed in this order.
at::Tensor run_in_order(models::Model& model, const RowHead& head, std::span<const int64_t> order,
                        const MakeBatch& make_batch, const RowScoring& options) {
  const at::NoGradGuard no_grad;
  RowScorer scorer(model, head, make_batch, options);
  const at::Tensor scores = at::zeros({std::ssize(order), head.width}, at::kDouble);
  const auto step =
      static_cast<size_t>(options.batch * (options.ranks ? options.ranks->strategy().dp : 1));
  for (size_t begin = 0; begin < order.size(); begin += step) {
    const auto rows = order.subspan(begin, std::min(step, order.size() - begin));
    const at::Tensor found = scorer.score(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      scores[rows[i]].copy_(found[static_cast<int64_t>(i)]);
    }
    if (options.progress) options.progress(static_cast<int64_t>(begin + rows.size()));
  }
  return scores;
}

}  // namespace

at::Tensor scores_of_rows(models::Model& model, const models::TransformerConfig& config,
                          int64_t count, const MakeBatch& make_batch, const RowScoring& options) {
  return run_in_order(model, scores_of(config), numbers_to(count), make_batch, options);
}

RowVectors vectors_of_rows(models::Model& model, const models::TextTower& tower, int64_t count,
                           const MakeBatch& make_batch, const RowScoring& options) {
  const int parts = options.ranks ? options.ranks->strategy().sp : 1;
  const at::Tensor found =
      run_in_order(model, vectors_of(tower, parts), numbers_to(count), make_batch, options);
  const at::Tensor vectors = found.narrow(1, 0, tower.features);
  return {vectors / vectors.square().sum(-1, /*keepdim=*/true).sqrt(),
          found[0][tower.features].item<double>(), found[0][tower.features + 1].item<double>()};
}

at::Tensor scores_of_texts(models::Model& model, const models::TransformerConfig& config,
                           const std::vector<Row>& texts, int32_t padding,
                           const RowScoring& options) {
  std::vector<int64_t> order = numbers_to(std::ssize(texts));
  std::ranges::stable_sort(order, std::greater(),
                           [&](int64_t i) { return texts[static_cast<size_t>(i)].tokens.size(); });
  const int64_t min_length = options.ranks ? options.ranks->strategy().sp : 1;
  const auto make_batch = [&](std::span<const int64_t> rows) {
    std::vector<const Row*> chosen;
    for (const int64_t row : rows) chosen.push_back(&texts[static_cast<size_t>(row)]);
    return collate_texts(chosen, numbers_to(std::ssize(rows)), padding, min_length, config);
  };
  return run_in_order(model, scores_of(config), order, make_batch, options);
}

}  // namespace colossal::tune
