#include "colossal/tune/samples/pairs.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "colossal/data/text_batch.h"
#include "colossal/ops/loss/linear_cross_entropy.h"

namespace colossal::tune {
namespace {

at::Tensor count_labels(const std::vector<const Row*>& rows) {
  at::Tensor counts = at::zeros({std::ssize(rows)}, at::kDouble);
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    const std::vector<uint8_t>& learned = rows[i]->learned;
    counts[i] = static_cast<double>(std::count(learned.begin() + 1, learned.end(), 1));
  }
  return counts;
}

}  // namespace

std::vector<data::Batch> PairTask::make_batches(const std::vector<MicroBatch>& drawn) const {
  std::vector<data::Batch> batches;
  for (const MicroBatch& micro_batch : drawn) {
    std::vector<const Row*> rows;
    std::vector<int64_t> ids;
    for (const int which : {0, 1}) {
      for (const Drawn& each : micro_batch) {
        rows.push_back(&each.sample->rows[which]);
        ids.push_back(2 * each.id + which);
      }
    }
    batches.push_back(collate_rows(rows, std::move(ids)));
    batches.back().set(kCompletionLabels, count_labels(rows));
    add_fields(batches.back(), rows);
  }
  return batches;
}

PairScores PairTask::pairs_of(const at::Tensor& scores, const data::Batch& batch) {
  const int64_t pairs = scores.size(0) / 2;
  const at::Tensor tokens = batch.at(kCompletionLabels).to(scores.scalar_type()).clamp_min(1);
  return {.chosen = scores.narrow(0, 0, pairs),
          .rejected = scores.narrow(0, pairs, pairs),
          .chosen_tokens = tokens.narrow(0, 0, pairs),
          .rejected_tokens = tokens.narrow(0, pairs, pairs)};
}

void PairTask::add_mean_chosen_labels(std::vector<data::Batch>& batches) const {
  double labels = 0, rows = 0;
  for (const data::Batch& batch : batches) {
    const int64_t pairs = batch.at(data::kLabels).size(0) / 2;
    rows += static_cast<double>(pairs);
    labels +=
        batch.at(data::kLabels).narrow(0, 0, pairs).ne(ops::kIgnoredLabel).sum().item<double>();
  }
  const at::Tensor mean = at::full({}, mean_over_ranks(labels, rows), at::kDouble);
  for (data::Batch& batch : batches) batch.set(kMeanChosenLabels, mean);
}

std::vector<std::string> PairTask::pair_metrics() {
  return {"rewards/chosen",  "rewards/rejected", "rewards/accuracies",
          "rewards/margins", "logps/chosen",     "logps/rejected"};
}

std::map<std::string, LossSum::Metric> PairTask::measure(const at::Tensor& chosen_rewards,
                                                         const at::Tensor& rejected_rewards,
                                                         const PairScores& scores) {
  return {{"rewards/chosen", metric_of(chosen_rewards)},
          {"rewards/rejected", metric_of(rejected_rewards)},
          {"rewards/accuracies", metric_of(chosen_rewards.gt(rejected_rewards).to(at::kDouble))},
          {"rewards/margins", metric_of(chosen_rewards - rejected_rewards)},
          {"logps/chosen", metric_of(scores.chosen)},
          {"logps/rejected", metric_of(scores.rejected)}};
}

LossSum PairTask::loss_of(const at::Tensor& losses,
                          std::map<std::string, LossSum::Metric> metrics) const {
  return {.sum = losses.sum(),
          .count = losses.size(0),
          .copies = context().strategy().sp,
          .metrics = std::move(metrics)};
}

LossSum::Metric metric_of(const at::Tensor& values) {
  return {.sum = values.detach().sum(at::kDouble), .count = static_cast<double>(values.size(0))};
}

}  // namespace colossal::tune
