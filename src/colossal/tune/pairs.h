// What the methods that compare a chosen with a rejected completion have in common.
#pragma once

#include <string>
#include <vector>

#include "colossal/tune/completion_scores.h"
#include "colossal/tune/losses.h"
#include "colossal/tune/sample_task.h"

namespace colossal::tune {

// A micro-batch of n pairs has 2 n rows: first the chosen completions, then the rejected ones.
class PairTask : public SampleTask {
 public:
  PairTask(const Job& job, const ParallelContext& context, const Tuning& tuning,
           const std::function<void()>& reading)
      : SampleTask(job, context, tuning, SampleKind::preference, reading) {}

 protected:
  std::vector<data::Batch> make_batches(const std::vector<MicroBatch>& drawn) const override;
  // Adds what a method asks for beside the rows.
  virtual void add_fields(data::Batch&, const std::vector<const Row*>&) const {}

  // Scores [rows], a policy's or a reference's, as pairs.
  static PairScores pairs_of(const at::Tensor& scores, const data::Batch& batch);

  // Fields: how many labels of its completion each row has, [rows]; how many labels a chosen row
  // has, the mean over the global batch.
  static constexpr const char* kCompletionLabels = "completion_labels";
  static constexpr const char* kMeanChosenLabels = "mean_chosen_labels";
  // Labels of chosen rows, whatever their weights. Collective.
  void add_mean_chosen_labels(std::vector<data::Batch>& batches) const;
  static double mean_chosen_labels(const data::Batch& batch);

  // rewards/chosen, rewards/rejected, rewards/accuracies, rewards/margins, logps/chosen,
  // logps/rejected, as TRL names and defines them. Rewards: [pairs].
  static std::vector<std::string> pair_metrics();
  static std::map<std::string, LossSum::Metric> measure(const at::Tensor& chosen_rewards,
                                                        const at::Tensor& rejected_rewards,
                                                        const PairScores& scores);
  LossSum loss_of(const at::Tensor& losses, std::map<std::string, LossSum::Metric> metrics) const;
};

// A sum and its count of [pairs] numbers.
LossSum::Metric metric_of(const at::Tensor& values);

}  // namespace colossal::tune
