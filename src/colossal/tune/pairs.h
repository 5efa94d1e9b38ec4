// Base class of methods that compare a chosen with a rejected completion of the same prompt.
#pragma once

#include <string>
#include <vector>

#include "colossal/tune/completion_scores.h"
#include "colossal/tune/losses.h"
#include "colossal/tune/sample_task.h"

namespace colossal::tune {

// A micro-batch of n pairs has 2 n rows: the n chosen completions, then the n rejected ones.
class PairTask : public SampleTask {
 public:
  PairTask(const Job& job, const ParallelContext& context, const Tuning& tuning,
           const std::function<void()>& reading)
      : SampleTask(job, context, tuning, SampleKind::preference, reading) {}

 protected:
  std::vector<data::Batch> make_batches(const std::vector<MicroBatch>& drawn) const override;
  // Adds the batch fields that a method needs. rows: the batch's rows.
  virtual void add_fields(data::Batch&, const std::vector<const Row*>&) const {}

  // Splits scores [2 n] of the policy or the reference into chosen and rejected scores, [n] each,
  // and sets the token counts; reference scores are left undefined.
  static PairScores pairs_of(const at::Tensor& scores, const data::Batch& batch);

  // Names of batch fields. kCompletionLabels: number of labels of each row, i.e. of trained tokens,
  // [rows]. kMeanChosenLabels: mean number of labels of a chosen row over the global batch, a
  // scalar.
  static constexpr const char* kCompletionLabels = "completion_labels";
  static constexpr const char* kMeanChosenLabels = "mean_chosen_labels";
  // Sets the field kMeanChosenLabels of a step's batches. Each label counts as 1, regardless of
  // kLabelWeights. Collective over all ranks.
  void add_mean_chosen_labels(std::vector<data::Batch>& batches) const;
  static double mean_chosen_labels(const data::Batch& batch);  // reads that field

  // pair_metrics(): the names rewards/chosen, rewards/rejected, rewards/accuracies,
  // rewards/margins, logps/chosen and logps/rejected; measure(): these metrics, defined as in TRL.
  // Rewards are [pairs].
  static std::vector<std::string> pair_metrics();
  static std::map<std::string, LossSum::Metric> measure(const at::Tensor& chosen_rewards,
                                                        const at::Tensor& rejected_rewards,
                                                        const PairScores& scores);
  // losses: [pairs], equal on all ranks of sp.
  LossSum loss_of(const at::Tensor& losses, std::map<std::string, LossSum::Metric> metrics) const;
};

// Returns the sum and the count of `values`, [pairs].
LossSum::Metric metric_of(const at::Tensor& values);

}  // namespace colossal::tune
