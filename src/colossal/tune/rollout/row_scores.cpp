#include "colossal/tune/rollout/row_scores.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
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

class RowScorer {
 public:
  RowScorer(models::LanguageModel& model, const models::TransformerConfig& config,
            const MakeBatch& make_batch, const RowScoring& options)
      : model_(model),
        config_(config),
        make_batch_(make_batch),
        ranks_(options.ranks),
        strategy_(ranks_ ? ranks_->strategy() : Strategy{}),
        stages_(ranks_),
        part_(ranks_ ? parallel::sequence_part(*ranks_)
                     : nn::SequencePart{.device = options.device}) {}

  // Returns the scores of these rows, [rows, scores], on all ranks.
  at::Tensor score(std::span<const int64_t> rows) {
    const auto count = std::ssize(rows);
    const Range here = ranks_ ? Partition(count, strategy_.dp).range(ranks_->coordinate(Axis::dp))
                              : Range{0, count};
    const at::Tensor all = at::zeros({count, config_.scores}, at::kDouble);
    // A replica without rows computes one that does not count: all ranks take part in each pass.
    const at::Tensor found =
        run(here.size() > 0 ? rows.subspan(here.begin, here.size()) : rows.first(1));
    if (found.defined() && here.size() > 0) all.narrow(0, here.begin, here.size()).copy_(found);
    if (!ranks_) return all;
    const at::Tensor sum = all.to(ranks_->device());
    comm::all_reduce(sum, ranks_->world_group(), comm::Reason::control);
    return sum.cpu();
  }

 private:
  // Returns this rank's part of the scores of the rows of its replica: summed over all ranks of the
  // replica, the parts are the scores. Undefined: zeros.
  at::Tensor run(std::span<const int64_t> rows) {
    const data::Batch whole = make_batch_(rows);
    const nn::StepContext context = model_.context_of(whole, {}, part_);
    const data::Batch batch = data::local_batch(whole, part_);
    at::Tensor found;
    stages_.run([&](int stage, const at::Tensor& before) {
      const nn::BlockState start =
          stage == 0 ? model_.inputs(batch, context) : nn::BlockState{{before}};
      const Range blocks = strategy_.blocks_of_stage(stage, model_.num_blocks());
      const at::Tensor x = model_.run_blocks(blocks, start, context).output();
      if (stage < strategy_.num_stages() - 1) return x;
      const at::Tensor scores = model_.head_scores(x, context).to(at::kDouble);
      const at::Tensor pooling = batch.find(data::kPooling);
      found = (pooling.defined() ? scores * pooling.unsqueeze(-1) : scores).sum(1).cpu();
      return at::Tensor();
    });
    const bool is_counted = !ranks_ || ranks_->coordinate(Axis::tp) == 0;  // tp has equal scores
    return is_counted ? found : at::Tensor();
  }

  models::LanguageModel& model_;
  const models::TransformerConfig& config_;
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

// Returns the scores of rows, which are computed in this order.
at::Tensor scores_in_order(models::LanguageModel& model, const models::TransformerConfig& config,
                           std::span<const int64_t> order, const MakeBatch& make_batch,
                           const RowScoring& options) {
  COLOSSAL_CHECK(config.scores > 0, "a model of family {} without scores", config.family);
  const at::NoGradGuard no_grad;
  RowScorer scorer(model, config, make_batch, options);
  const at::Tensor scores = at::zeros({std::ssize(order), config.scores}, at::kDouble);
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

at::Tensor scores_of_rows(models::LanguageModel& model, const models::TransformerConfig& config,
                          int64_t count, const MakeBatch& make_batch, const RowScoring& options) {
  return scores_in_order(model, config, numbers_to(count), make_batch, options);
}

at::Tensor scores_of_texts(models::LanguageModel& model, const models::TransformerConfig& config,
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
  return scores_in_order(model, config, order, make_batch, options);
}

}  // namespace colossal::tune
