// Base class of on-policy methods (GRPO, RLOO, PPO), which train on completions sampled from the
// model in training. A generation (generation.h) is sampled and rewarded, then trained on by one or
// several updates.
//
// Each rank of the data group samples its share of the completions. All ranks then gather all
// completions and compute the same advantages. The random draws of a completion depend only on the
// run's seed and the completion's number in the run, so a different layout changes results by
// rounding only.
//
// With max_staleness > 0, completions of later generations are sampled and rewarded during each
// update's forward and backward passes, in a separate thread with its own communication groups, if
// samples_during_updates(); else before these passes. Which completions are continued, and by how
// many tokens, depends only on counts of completions and tokens (begun_completions.h), and the
// weights are not changed before the thread is done. Both ways therefore give bitwise equal
// results.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/tune/begun_completions.h"
#include "colossal/tune/completion_rewards.h"
#include "colossal/tune/generation.h"
#include "colossal/tune/policy_losses.h"
#include "colossal/tune/policy_scorer.h"
#include "colossal/tune/sample_task.h"
#include "colossal/tune/sampler_thread.h"

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
  ConcurrentWork begin_step(Engine& engine) override;
  void complete(std::vector<data::Batch>& batches, Engine& engine) override;
  HeadLoss loss() const override;

 protected:
  OnlineTask(const Job& job, const ParallelContext& context, const Tuning& tuning,
             const std::function<void()>& reading);

  // Inputs of a method's loss for a micro-batch. Per-token tensors are [rows, tokens on this rank],
  // in the dtype of log-probabilities. policy.mask is 1 for tokens that are trained on. Ranks of sp
  // hold different tokens of the same rows.
  struct Scores {
    PolicyScores policy;
    at::Tensor lengths;  // [rows]: number of trained tokens of the whole row
    // Per token, if the model has a value head. values: current values, differentiable. old_values,
    // returns: values and returns from before the first update on the generation.
    at::Tensor values = {}, old_values = {}, returns = {};
    double mean_length = 1;  // mean of `lengths` over all completions of the generation
  };
  // Returns the loss summed over the rows, equal on all ranks of sp, and the method's metrics.
  virtual LossSum loss_of(const Scores& scores) const = 0;
  // Sets the advantages of completions from their total rewards, [completions], in groups of
  // adjacent completions of one prompt. Adds metrics of the generation to `told`.
  virtual void find_advantages(std::vector<ScoredCompletion>& completions,
                               const at::Tensor& rewards,
                               std::map<std::string, double>& told) const = 0;
  // For find_advantages(): sets ScoredCompletion::advantage of each completion to found.advantages
  // and adds metrics to `told`.
  static void set_advantages(const Advantages& found, std::vector<ScoredCompletion>& completions,
                             std::map<std::string, double>& told);
  virtual std::vector<std::string> method_metrics() const = 0;  // names of the method's own metrics
  // Returns the mean of per-token `numbers` over trained tokens; `numbers` must be 0 elsewhere.
  static LossSum::Metric mean_of_tokens(const at::Tensor& numbers, const Scores& scores);

 private:
  nlohmann::json settings_of_completions() const;
  // Throws ConfigError if the completions in a checkpoint's state were sampled with settings or
  // data other than this run's.
  void require_same(const nlohmann::json& state) const;
  int64_t completions_per_generation() const;
  bool is_trained_on(const ScoredCompletion& completion) const;

  // Sets generation_ to the next generation, after sampling the tokens that its completions lack.
  void take_generation(Engine& engine);
  // Begins completions until there are `count`.
  void begin_until(int64_t count);
  // Completions to continue with weights trained on `version` generations.
  struct Sampling {
    std::vector<BegunCompletions::Continuation> continued;
    std::vector<Prompt> prompts;  // of each completion, the prompt followed by its tokens so far
    int64_t version = 0;
  };
  Sampling sampling_of(std::vector<BegunCompletions::Continuation> continued,
                       int64_t version) const;
  // Continues the completions, collects the rewards that an earlier call requested, and requests
  // the rewards of all completions that are finished by now. Collective.
  void continue_sampling(const Sampling& sampling, const SampledModel& from);
  // Returns the next `count` completions, in groups, with rewards. Collective.
  std::vector<ScoredCompletion> sample(int64_t count, Engine& engine);
  // As sample(), for a generation. With dynamic sampling (DAPO), samples until there are enough
  // groups whose rewards differ; if there are too few after the last round, fills up with other
  // groups.
  std::vector<ScoredCompletion> sample_usable(Engine& engine);
  // Computes scores and advantages of a generation before the first update.
  void score(Generation& generation, Engine& engine);
  // Computes log-probabilities by the current model and by the reference, and values, if any of
  // them is needed.
  void score_tokens(Generation& generation, Engine& engine);
  void find_advantages(Generation& generation) const;
  std::map<std::string, double> measure(const std::vector<ScoredCompletion>& completions,
                                        const at::Tensor& rewards) const;
  // Returns the mean staleness of tokens and the fraction of tokens of each staleness.
  std::map<std::string, double> staleness_metrics(
      const std::vector<ScoredCompletion>& completions) const;

  // Returns the ranges of completions in this replica's micro-batches for part `part` of a
  // generation.
  std::vector<Range> rows_of_step(int64_t part) const;
  data::Batch make_batch(const Generation& generation, const Range& rows) const;
  std::vector<data::Batch> make_batches(const std::vector<MicroBatch>&) const override {
    return {};
  }
  void log_completions(const Generation& generation, int64_t step) const;

  // communication groups of the sampling thread; null: sampling does not overlap updates
  std::unique_ptr<const ParallelContext> beside_;
  CompletionRewards rewards_;
  RolloutOptions rollout_;
  models::LanguageModel* model_ = nullptr;
  std::optional<PolicyScorer> scorer_;
  std::optional<Generation> generation_;
  BegunCompletions begun_;       // used by the sampling thread during an update
  int64_t next_position_ = 0;    // position of the prompt whose completions are begun next
  int64_t next_completion_ = 0;  // number of the completion that is begun next
  int64_t generations_ = 0;      // number of generations taken so far, the current one included
  int64_t updates_ = 0;          // number of updates begun on the current generation
  int64_t failures_ = 0;  // failed reward calls in the run until the current generation was taken
  std::optional<SamplerThread> sampler_;  // declared last: its thread uses other members
};

}  // namespace colossal::tune
