// What methods have in common that learn from completions of the model's own. A generation is
// sampled and rewarded, then learned from in one or several updates.
//
// Each rank of the data group samples a share of a generation's completions; then all ranks have
// all of them, and find the same advantages. The draws of a completion follow from the run's seed
// and its number in the run alone, so that the layout does not matter, but for rounding.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/tune/generation.h"
#include "colossal/tune/policy_losses.h"
#include "colossal/tune/policy_scorer.h"
#include "colossal/tune/reward_set.h"
#include "colossal/tune/sample_task.h"

namespace colossal::tune {

class OnlineTask : public SampleTask {
 public:
  std::vector<std::string> metrics() const override;
  std::vector<std::string> shown_metrics() const override {
    return {"reward", "completions/mean_length"};
  }
  data::BatchLoader training_loader(int64_t steps_done) const override;
  nlohmann::json state() const override;
  void restore(const nlohmann::json& state) override;

  void begin(models::LanguageModel& model, Engine& engine) override;
  void complete(std::vector<data::Batch>& batches, Engine& engine) override;
  HeadLoss loss() const override;

 protected:
  OnlineTask(const Job& job, const ParallelContext& context, const Tuning& tuning,
             const std::function<void()>& reading);

  // Of a micro-batch, as the loss of a method gets it. Tensors of tokens are [rows, tokens] in the
  // type of log-probabilities, 0 where no token is learned.
  struct Scores {
    PolicyScores policy;
    at::Tensor lengths;  // [rows]: tokens that are learned
    // Of tokens, where the model has a head for values: these, differentiable, and those with the
    // returns that were found as the completions were sampled.
    at::Tensor values = {}, old_values = {}, returns = {};
    double mean_length = 1;  // of these over the generation
  };
  // The sum over the rows, and the method's metrics.
  virtual LossSum loss_of(const Scores& scores) const = 0;
  // Finds the completions' advantages from their total rewards, which come in groups, and tells
  // metrics of the generation.
  virtual void find_advantages(std::vector<ScoredCompletion>& completions,
                               const at::Tensor& rewards,
                               std::map<std::string, double>& told) const = 0;
  // The same for a method that has an advantage for each completion.
  static void take_advantages(const Advantages& found, std::vector<ScoredCompletion>& completions,
                              std::map<std::string, double>& told);
  virtual std::vector<std::string> method_metrics() const = 0;
  // The mean of numbers of tokens, 0 where none is learned, over those that are.
  static LossSum::Metric mean_of_tokens(const at::Tensor& numbers, const Scores& scores);

 private:
  int64_t completions_per_generation() const;
  bool learns_from(const ScoredCompletion& completion) const;

  void generate(Engine& engine);
  // So many completions, in groups, of the next prompts of the run. Collective.
  std::vector<ScoredCompletion> sample(int64_t count, Engine& engine);
  void score(std::vector<ScoredCompletion>& completions);
  // Groups whose rewards differ; at last also others, where too few do.
  std::vector<ScoredCompletion> sample_usable(Engine& engine);
  // Log-probabilities by the model as it is, and by the reference, where a method needs them.
  void score_tokens(Generation& generation, Engine& engine);
  void find_advantages(Generation& generation) const;
  std::map<std::string, double> measure(const std::vector<ScoredCompletion>& completions,
                                        const at::Tensor& rewards) const;
  at::Tensor totals(const std::vector<ScoredCompletion>& completions) const;

  // This replica's micro-batches of a step that learns from a part of a generation, and of which
  // completions these are.
  std::vector<Range> rows_of_step(int64_t part) const;
  data::Batch make_batch(const Generation& generation, const Range& rows) const;
  std::vector<data::Batch> make_batches(const std::vector<MicroBatch>&) const override {
    return {};
  }
  void log_completions(const Generation& generation, int64_t step) const;

  RewardSet rewards_;
  RolloutOptions rollout_;
  models::LanguageModel* model_ = nullptr;
  std::optional<PolicyScorer> scorer_;
  std::optional<Generation> generation_;
  int64_t next_position_ = 0;    // of the prompt that is sampled next, in the run's order
  int64_t next_completion_ = 0;  // the number of the completion that is sampled next
  int64_t updates_ = 0;          // that have learned from the generation
  int64_t failures_ = 0;         // of rewards, on all ranks, while it was sampled
};

}  // namespace colossal::tune
