#include "colossal/tune/rollout/text_scores.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "colossal/base/error.h"
#include "colossal/comm/group.h"
#include "colossal/engine/batch_context.h"
#include "colossal/layout/partition.h"
#include "colossal/parallel/sequence/positions.h"
#include "colossal/serve/stages.h"
#include "colossal/tune/methods/score_head.h"

namespace colossal::tune {
namespace {

class TextScorer {
 public:
  TextScorer(models::LanguageModel& model, const models::TransformerConfig& config,
             const TextScoring& options)
      : model_(model),
        config_(config),
        options_(options),
        ranks_(options.ranks),
        strategy_(ranks_ ? ranks_->strategy() : Strategy{}),
        stages_(ranks_) {}

  // Returns the scores of these texts, [texts, scores], on all ranks.
  at::Tensor score(const std::vector<const Row*>& texts) {
    const auto count = std::ssize(texts);
    const Range here = ranks_ ? Partition(count, strategy_.dp).range(ranks_->coordinate(Axis::dp))
                              : Range{0, count};
    const at::Tensor all = at::zeros({count, config_.scores}, at::kDouble);
    // A replica without texts computes one that does not count: all ranks take part in each pass.
    const std::vector<const Row*> own =
        here.size() > 0 ? std::vector(texts.begin() + here.begin, texts.begin() + here.end)
                        : std::vector{texts.front()};
    const at::Tensor found = run(own);
    if (found.defined() && here.size() > 0) all.narrow(0, here.begin, here.size()).copy_(found);
    if (!ranks_) return all;
    const at::Tensor sum = all.to(ranks_->device());
    comm::all_reduce(sum, ranks_->world_group(), comm::Reason::control);
    return sum.cpu();
  }

 private:
  // Returns this rank's part of the scores of the texts of its replica: summed over all ranks of
  // the replica, the parts are the scores. Undefined: zeros.
  at::Tensor run(const std::vector<const Row*>& texts) {
    std::vector<int64_t> ids(texts.size());
    std::iota(ids.begin(), ids.end(), 0);
    const data::Batch batch =
        collate_texts(texts, std::move(ids), options_.padding, strategy_.sp, config_);
    const int64_t length = batch.inputs.size(1);
    const at::Tensor positions =
        ranks_ ? parallel::positions_here(length, *ranks_) : at::arange(length, at::kLong);
    const auto local = [&](const at::Tensor& whole) {
      return whole.index_select(1, positions).to(options_.device);
    };
    nn::StepContext context =
        nn::make_step_context(batch.inputs.size(0), positions.numel(), options_.device);
    context.positions = positions.to(options_.device);
    context.whole_sequence = context.length = length;
    if (batch.documents.defined()) context.documents = batch.documents.to(options_.device);
    if (const auto types = batch.fields.find(kTokenTypesField); types != batch.fields.end()) {
      context.token_types = local(types->second.values);
    }
    const at::Tensor inputs = local(batch.inputs);
    const at::Tensor chosen = local(batch.fields.at(kScoredPosition).values);
    at::Tensor found;
    stages_.run([&](int stage, const at::Tensor& before) {
      const models::Streams start =
          stage == 0 ? model_.embed(inputs, context) : models::Streams{before};
      const Range blocks = strategy_.blocks_of_stage(stage, model_.num_blocks());
      const at::Tensor x = model_.run_blocks(blocks, start, context).x;
      if (stage < strategy_.num_stages() - 1) return x;
      const at::Tensor scores = model_.head_scores(x, context).to(at::kDouble);
      found = (scores * chosen.unsqueeze(-1)).sum(1).cpu();
      return at::Tensor();
    });
    const bool is_counted = !ranks_ || ranks_->coordinate(Axis::tp) == 0;  // tp has equal scores
    return is_counted ? found : at::Tensor();
  }

  models::LanguageModel& model_;
  const models::TransformerConfig& config_;
  TextScoring options_;
  const ParallelContext* ranks_;
  Strategy strategy_;
  serve::Stages stages_;
};

}  // namespace

at::Tensor scores_of_texts(models::LanguageModel& model, const models::TransformerConfig& config,
                           const std::vector<Row>& texts, const TextScoring& options,
                           const std::function<void(int64_t)>& progress) {
  COLOSSAL_CHECK(config.scores > 0, "a model of family {} without scores", config.family);
  const at::NoGradGuard no_grad;
  TextScorer scorer(model, config, options);
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return texts[i].tokens.size(); });
  const at::Tensor scores = at::zeros({std::ssize(texts), config.scores}, at::kDouble);
  const int64_t replicas = options.ranks ? options.ranks->strategy().dp : 1;
  const auto step = static_cast<size_t>(options.batch * replicas);
  for (size_t begin = 0; begin < order.size(); begin += step) {
    const size_t end = std::min(begin + step, order.size());
    std::vector<const Row*> rows;
    for (size_t i = begin; i < end; ++i) rows.push_back(&texts[order[i]]);
    const at::Tensor found = scorer.score(rows);
    for (size_t i = begin; i < end; ++i) {
      scores[static_cast<int64_t>(order[i])].copy_(found[static_cast<int64_t>(i - begin)]);
    }
    if (progress) progress(static_cast<int64_t>(end));
  }
  return scores;
}

}  // namespace colossal::tune
