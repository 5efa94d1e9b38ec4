// Base class of the tasks that train on preference pairs: a chosen and a rejected completion of the
// same prompt (DPO, CPO, SimPO, ORPO, reward models).
#pragma once

#include <string>
#include <vector>

#include "colossal/tune/methods/losses.h"
#include "colossal/tune/methods/sample_task.h"
#include "colossal/tune/rollout/completion_scores.h"

namespace colossal::tune {

// A micro-batch of n pairs has 2 n rows: the n chosen completions, then the n rejected completions,
// each with its prompt.
class PairTask : public SampleTask {
 public:
  // The arguments are those of SampleTask. Collective.
  PairTask(const Job& job, const ParallelContext& context, const Tuning& tuning,
           const std::function<void()>& reading)
      : SampleTask(job, context, tuning, SampleKind::preference, reading) {}

 protected:
  std::vector<data::Batch> make_batches(const std::vector<MicroBatch>& drawn) const override;
  // Adds to a batch the fields that the method's loss needs, by default none. rows: the rows of the
  // batch.
  virtual void add_fields(data::Batch&, const std::vector<const Row*>&) const {}

  // Splits `scores`, the log-probability of the completion in each row of `batch`, [2 n], into
  // PairScores::chosen and rejected, [n] each. Sets chosen_tokens and rejected_tokens, [n] each, to
  // the number of labels of each row (the batch's field kCompletionLabels), but at least 1. Leaves
  // PairScores::reference_chosen and reference_rejected undefined; to set them, pass the reference
  // model's scores to a second call of pairs_of() and copy `chosen` and `rejected` of its result.
  static PairScores pairs_of(const at::Tensor& scores, const data::Batch& batch);

  // Names of batch fields. kCompletionLabels, which make_batches() sets: [rows], the number of
  // labels of each row, i.e. of tokens that are trained on. kMeanChosenLabels: a scalar, the mean
  // number of labels of the chosen rows of the global batch.
  static constexpr const char* kCompletionLabels = "completion_labels";
  static constexpr const char* kMeanChosenLabels = "mean_chosen_labels";
  // Sets the field kMeanChosenLabels of this replica's batches of a step. Each label counts 1,
  // whatever its weight (kLabelWeights, completion_scores.h). Collective over all ranks.
  void add_mean_chosen_labels(std::vector<data::Batch>& batches) const;

  // Returns the names of the metrics that measure() returns: rewards/chosen, rewards/rejected,
  // rewards/accuracies, rewards/margins, logps/chosen and logps/rejected.
  static std::vector<std::string> pair_metrics();
  // Returns metrics of the pairs of a micro-batch, defined as in TRL. chosen_rewards,
  // rejected_rewards: the implicit rewards of the completions by the method's definition, [pairs].
  // scores: of the policy.
  static std::map<std::string, LossSum::Metric> measure(const at::Tensor& chosen_rewards,
                                                        const at::Tensor& rejected_rewards,
                                                        const PairScores& scores);
  // Returns the loss of a micro-batch: the sum of `losses`, the number of pairs, and `metrics`.
  // losses: the loss of each pair, [pairs]; must be equal on all ranks of sp.
  LossSum loss_of(const at::Tensor& losses, std::map<std::string, LossSum::Metric> metrics) const;
};

// Returns a metric that is the mean of `values`, one value per pair or row.
LossSum::Metric metric_of(const at::Tensor& values);

}  // namespace colossal::tune
