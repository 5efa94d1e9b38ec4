// Base class of the tasks of on-policy methods (GRPO, RLOO, PPO), which train on completions
// sampled from the model in training. The task samples a generation (generation.h), i.e. a set of
// completions, and computes their rewards; one or several updates then train on the generation. A
// derived class adds the advantages and the loss of its method.
//
// Each rank along dp and sp samples its share of the completions. All ranks then gather all
// completions and compute the same advantages. The random numbers of a completion depend only on
// the run's seed and the completion's number in the run, so another parallel layout changes results
// by rounding only.
//
// The completions of a generation are begun tune.max_staleness generations earlier. If this number
// is above 0, each update on a generation also continues completions of later generations
// (begun_completions.h). If samples_during_updates() (sampling_beside.h) is true, a separate thread
// with its own communication groups does this while the update's forward and backward passes run;
// otherwise it is done before these passes. Which completions are continued, and by how many
// tokens, depends only on counts of completions and tokens, and the weights do not change until the
// thread is done. The results of both ways are therefore bitwise equal.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/tune/methods/policy_losses.h"
#include "colossal/tune/methods/policy_scorer.h"
#include "colossal/tune/methods/sample_task.h"
#include "colossal/tune/rewards/completion_rewards.h"
#include "colossal/tune/rollout/begun_completions.h"
#include "colossal/tune/rollout/generation.h"
#include "colossal/tune/rollout/sampler_thread.h"

namespace colossal::tune {

// SampleTask and TrainingTask document the overridden functions.
class OnlineTask : public SampleTask {
 public:
  std::vector<std::string> metrics() const override;
  std::vector<std::string> shown_metrics() const override {
    return {"reward", "completions/mean_length"};
  }
  data::BatchLoader training_loader(int64_t steps_done) const override;
  nlohmann::json state() const override;
  void restore(const nlohmann::json& state) override;

  void begin(models::Model& model, Engine& engine) override;
  ConcurrentWork begin_step(Engine& engine) override;
  std::map<std::string, double> complete(std::vector<data::Batch>& batches,
                                         Engine& engine) override;
  HeadLoss loss() const override;

 protected:
  // The arguments are those of SampleTask. Collective.
  OnlineTask(const Job& job, const ParallelContext& context, const Tuning& tuning,
             const std::function<void()>& reading);

  // Inputs of a method's loss for a micro-batch. Tensors per token are [rows, tokens on this rank],
  // in the dtype of log-probabilities. With sp > 1, the ranks of sp have different tokens of the
  // same rows.
  struct Scores {
    PolicyScores policy;
    at::Tensor lengths;  // [rows]: number of tokens of the whole row that are trained on
    // Per token; undefined if the model has no value head. values: output of the value head now,
    // differentiable. old_values, returns: values and returns computed before the first update on
    // the generation.
    at::Tensor values = {}, old_values = {}, returns = {};
    // Mean of the number of tokens that are trained on, over all completions of the generation.
    double mean_length = 1;
  };
  // Returns the sum of the rows' losses, the number of rows, and the method's metrics
  // (method_metrics()). The losses are those of whole rows. So with sp > 1, the function sums over
  // the ranks of sp, and returns the same loss on all of them. OnlineTask sets LossSum::copies.
  virtual LossSum loss_of(const Scores& scores) const = 0;
  // Computes and sets the advantages of all completions of a generation:
  // ScoredCompletion::advantage, or token_advantages and returns. The completions of one prompt are
  // adjacent. rewards: total reward of each completion, [completions] fp64; NaN: none. Adds metrics
  // of the generation to `told`, by name. Each update on the generation reports them.
  virtual void find_advantages(std::vector<ScoredCompletion>& completions,
                               const at::Tensor& rewards,
                               std::map<std::string, double>& told) const = 0;
  // For use in find_advantages(): sets ScoredCompletion::advantage of completion i to
  // found.advantages[i], and adds found.fraction_with_equal_rewards to `told`.
  static void set_advantages(const Advantages& found, std::vector<ScoredCompletion>& completions,
                             std::map<std::string, double>& told);
  // Returns the names of the metrics that loss_of() adds.
  virtual std::vector<std::string> method_metrics() const = 0;
  // Returns a metric: the mean of `numbers` over the tokens that are trained on. numbers: one
  // number per token, [rows, tokens on this rank]; must be 0 for tokens that are not trained on.
  static LossSum::Metric mean_of_tokens(const at::Tensor& numbers, const Scores& scores);

 private:
  // Returns the settings, by key, that must not change while a checkpoint has completions that are
  // still to be trained on.
  nlohmann::json settings_of_completions() const;
  // Throws ConfigError if the settings or the data with which the completions in a checkpoint's
  // state were sampled differ from this run's.
  void require_same(const nlohmann::json& state) const;
  int64_t completions_per_generation() const;
  bool is_trained_on(const ScoredCompletion& completion) const;

  // Samples the tokens that the completions of the next generation lack, and sets generation_ to
  // the next generation.
  void take_generation(Engine& engine);
  // Adds completions without tokens to begun_ until it holds `count` completions.
  void begin_until(int64_t count);
  // Completions to continue with weights that were trained on `version` generations.
  struct Sampling {
    std::vector<BegunCompletions::Continuation> continued;
    // For each element of `continued`: the completion's prompt followed by its tokens so far.
    std::vector<Prompt> prompts;
    int64_t version = 0;
  };
  Sampling sampling_of(std::vector<BegunCompletions::Continuation> continued,
                       int64_t version) const;
  // Samples further tokens of the completions, collects the rewards that the previous call
  // requested, and requests the rewards of all completions that have become finished. from: the
  // model to sample from. Collective.
  void continue_sampling(const Sampling& sampling, const SampledModel& from);
  // Finishes the next `count` completions, computes their rewards, and returns them. Collective.
  std::vector<ScoredCompletion> sample(int64_t count, Engine& engine);
  // Returns the completions of the next generation. With dynamic sampling (DAPO), samples until
  // enough groups (the completions of one prompt) have rewards that are not all equal. If there are
  // too few such groups after max_sampling_rounds rounds, fills the generation with other groups.
  std::vector<ScoredCompletion> sample_usable(Engine& engine);
  // Computes the log-probabilities, values and advantages of a generation, before the first update
  // on it.
  void score(Generation& generation, Engine& engine);
  // Sets ScoredCompletion::old, reference and values; does nothing if the method needs none of
  // them.
  void score_tokens(Generation& generation, Engine& engine);
  // Sets the metrics of a generation and calls the method's find_advantages().
  void find_advantages(Generation& generation) const;
  // Returns metrics of lengths, staleness and rewards. rewards: total rewards, [completions].
  std::map<std::string, double> measure(const std::vector<ScoredCompletion>& completions,
                                        const at::Tensor& rewards) const;
  // Returns the mean staleness of tokens, and for each staleness the fraction of tokens that have
  // it. Staleness of a token: number of generations on which the weights are trained after the
  // token is sampled and before the first update on its completion. Empty if max_staleness is 0.
  std::map<std::string, double> staleness_metrics(
      const std::vector<ScoredCompletion>& completions) const;

  // Returns, for each micro-batch of this replica, the range of its completions in the generation.
  // part: which of the steps_per_generation global batches of the generation.
  std::vector<Range> rows_of_step(int64_t part) const;
  // Returns the micro-batch of the completions `rows`, with all fields that loss() reads.
  data::Batch make_batch(const Generation& generation, const Range& rows) const;
  // Not used: loaders of this task return no batches, and complete() makes those of a step.
  std::vector<data::Batch> make_batches(const std::vector<MicroBatch>&) const override {
    return {};
  }
  // Appends the completions to completions.jsonl in log.directory, on rank 0.
  void log_completions(const Generation& generation, int64_t step) const;

  // Communication groups of the sampling thread; null if sampling does not overlap updates.
  std::unique_ptr<const ParallelContext> beside_;
  CompletionRewards rewards_;
  RolloutOptions rollout_;
  models::Model* model_ = nullptr;
  std::optional<PolicyScorer> scorer_;
  std::optional<Generation> generation_;
  BegunCompletions begun_;  // used by the sampling thread during an update
  // Position, in the run's order of samples, of the prompt whose completions are begun next.
  int64_t next_position_ = 0;
  int64_t next_completion_ = 0;  // number of the completion that is begun next
  int64_t generations_ = 0;      // number of generations taken so far, the current one included
  int64_t updates_ = 0;          // number of updates begun on the current generation
  int64_t failures_ = 0;         // failed rewards in the run until the current generation was taken
  bool has_checked_rewards_ = false;      // whether this process has taken a generation
  std::optional<SamplerThread> sampler_;  // declared last: its thread uses other members
};

}  // namespace colossal::tune
