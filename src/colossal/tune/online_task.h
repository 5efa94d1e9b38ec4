// The base of methods that learn from completions of the model itself: GRPO, RLOO, PPO. A
// generation of completions is sampled and rewarded, then learned from in one or several updates.
//
// Each rank of the data group samples a share of the completions. All ranks then gather all of them
// and compute the same advantages. A completion's random draws depend only on the run's seed and
// the completion's number in the run, so the layout changes nothing but rounding.
//
// With a staleness, completions for later generations go on, and are rewarded, beside the forward
// and backward passes of each update, in a thread and in groups of their own. Which these are and
// how far they go follows from counts alone, and the update waits for them: they have the same bits
// where they go on before the passes instead.
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
  BesidePasses begin_step(Engine& engine) override;
  void complete(std::vector<data::Batch>& batches, Engine& engine) override;
  HeadLoss loss() const override;

 protected:
  OnlineTask(const Job& job, const ParallelContext& context, const Tuning& tuning,
             const std::function<void()>& reading);

  // What a method's loss gets for a micro-batch. Tensors by token are [rows, tokens here] in the
  // type of log-probabilities, 0 where no token is learned. Ranks of sp have some tokens each of
  // the same rows.
  struct Scores {
    PolicyScores policy;
    at::Tensor lengths;  // [rows]: tokens that are learned, of all ranks
    // By token, if the model has a value head: its values now, differentiable, and its values and
    // the returns when the completions were sampled.
    at::Tensor values = {}, old_values = {}, returns = {};
    double mean_length = 1;  // mean of `lengths` over the generation
  };
  // Returns the loss summed over the rows, the same on ranks of sp, and the method's metrics.
  virtual LossSum loss_of(const Scores& scores) const = 0;
  // Sets the completions' advantages from their total rewards, [completions] in groups, and adds
  // metrics of the generation to `told`.
  virtual void find_advantages(std::vector<ScoredCompletion>& completions,
                               const at::Tensor& rewards,
                               std::map<std::string, double>& told) const = 0;
  // Stores advantages by completion, and adds their metric to `told`.
  static void take_advantages(const Advantages& found, std::vector<ScoredCompletion>& completions,
                              std::map<std::string, double>& told);
  virtual std::vector<std::string> method_metrics() const = 0;
  // Returns the mean over learned tokens of `numbers`, by token, which must be 0 elsewhere.
  static LossSum::Metric mean_of_tokens(const at::Tensor& numbers, const Scores& scores);

 private:
  nlohmann::json settings_of_completions() const;
  // Throws ConfigError where the completions of a checkpoint do not fit this run.
  void require_same(const nlohmann::json& state) const;
  int64_t completions_per_generation() const;
  bool learns_from(const ScoredCompletion& completion) const;

  // Takes a generation to learn from, samples what it lacks.
  void take_generation(Engine& engine);
  // Begins completions until `count` are there.
  void begin_until(int64_t count);
  // Completions that go on, with the weights of a model that has learned from `version`
  // generations.
  struct Sampling {
    std::vector<BegunCompletions::Continuation> continued;
    std::vector<Prompt> prompts;  // of each
    int64_t version = 0;
  };
  Sampling sampling_of(std::vector<BegunCompletions::Continuation> continued,
                       int64_t version) const;
  // Samples, takes the rewards that were asked for before, and asks for those of all that have all
  // of their tokens since. Collective.
  void go_on(const Sampling& sampling, const SampledModel& from);
  // Returns the `count` completions that are next, in groups, with their rewards. Collective.
  std::vector<ScoredCompletion> sample(int64_t count, Engine& engine);
  // Samples until there are enough groups whose rewards differ. If there are too few after the last
  // round, other groups fill up.
  std::vector<ScoredCompletion> sample_usable(Engine& engine);
  // Adds what is computed of a generation before it is learned from.
  void score(Generation& generation, Engine& engine);
  // Adds log-probabilities by the current model and by the reference, if the method needs them.
  void score_tokens(Generation& generation, Engine& engine);
  void find_advantages(Generation& generation) const;
  std::map<std::string, double> measure(const std::vector<ScoredCompletion>& completions,
                                        const at::Tensor& rewards) const;
  // How stale the tokens of a generation are: the mean, and the share of each staleness.
  std::map<std::string, double> staleness_metrics(
      const std::vector<ScoredCompletion>& completions) const;

  // Returns, for the step that learns from part `part` of a generation, which completions are in
  // each of this replica's micro-batches.
  std::vector<Range> rows_of_step(int64_t part) const;
  data::Batch make_batch(const Generation& generation, const Range& rows) const;
  std::vector<data::Batch> make_batches(const std::vector<MicroBatch>&) const override {
    return {};
  }
  void log_completions(const Generation& generation, int64_t step) const;

  std::unique_ptr<const ParallelContext> beside_;  // groups of the thread; null: there is none
  CompletionRewards rewards_;
  RolloutOptions rollout_;
  models::LanguageModel* model_ = nullptr;
  std::optional<PolicyScorer> scorer_;
  std::optional<Generation> generation_;
  BegunCompletions begun_;       // while completions go on beside an update, their thread has it
  int64_t next_position_ = 0;    // of the prompt whose completions are begun next
  int64_t next_completion_ = 0;  // the number of the completion that is begun next
  int64_t generations_ = 0;      // that have been sampled
  int64_t updates_ = 0;          // that have learned from the generation
  int64_t failures_ = 0;         // of rewards, when the generation was taken
  std::optional<SamplerThread> sampler_;  // last: it uses the others
};

}  // namespace colossal::tune
