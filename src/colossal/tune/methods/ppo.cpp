#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "colossal/tune/methods/methods.h"
#include "colossal/tune/methods/online_task.h"
#include "colossal/tune/methods/shared_keys.h"
#include "colossal/tune/rollout/completion_scores.h"
#include "colossal/tune/samples/pairs.h"

namespace colossal::tune {
namespace {

// Returns values of the tokens of all completions: [completions, longest], 0 after the end of each.
at::Tensor table_of(const std::vector<ScoredCompletion>& completions,
                    std::vector<double> ScoredCompletion::*numbers) {
  int64_t longest = 1;
  for (const ScoredCompletion& each : completions) {
    longest = std::max(longest, std::ssize(each.completion.tokens));
  }
  at::Tensor table = at::zeros({std::ssize(completions), longest}, at::kDouble);
  for (int64_t i = 0; i < std::ssize(completions); ++i) {
    const std::vector<double>& row = completions[i].*numbers;
    table[i].narrow(0, 0, std::ssize(row)).copy_(at::tensor(row, at::kDouble));
  }
  return table;
}

std::vector<double> row_of(const at::Tensor& table, int64_t row, size_t count) {
  const at::Tensor numbers = table[row].narrow(0, 0, static_cast<int64_t>(count)).contiguous();
  return {numbers.const_data_ptr<double>(), numbers.const_data_ptr<double>() + count};
}

double mean_of_rows(const at::Tensor& table) {
  return table.sum(1).mean().item<double>();
}

// PPO (Schulman et al. 2017; Ouyang et al. 2022). Each token is penalized for its log ratio to the
// reference; the last token of a completion also gets the completion's reward. A value head learns
// to predict the returns of tokens, from which advantages are computed.
class Ppo final : public OnlineTask {
 public:
  Ppo(const Job& job, const ParallelContext& context, const Tuning& tuning, const Reading& reading)
      : OnlineTask(job, context, tuning, reading) {}

 private:
  std::vector<std::string> method_metrics() const override {
    return {"kl",
            "policy/approxkl_avg",
            "policy/clipfrac_avg",
            "loss/policy_avg",
            "loss/value_avg",
            "val/clipfrac_avg",
            "val/ratio"};
  }

  // Returns the reward of each completion: 0 if no reward applies. Completions that did not end get
  // a penalty.
  at::Tensor scores_of(const std::vector<ScoredCompletion>& completions,
                       const at::Tensor& rewards) const {
    at::Tensor scores = rewards.nan_to_num(0.0);
    for (int64_t i = 0; i < std::ssize(completions); ++i) {
      if (!completions[i].completion.ended) scores[i] -= config().missing_eos_penalty;
    }
    return scores;
  }

  void find_advantages(std::vector<ScoredCompletion>& completions, const at::Tensor& rewards,
                       std::map<std::string, double>& told) const override {
    const at::Tensor old = table_of(completions, &ScoredCompletion::old);
    const at::Tensor values = table_of(completions, &ScoredCompletion::values);
    at::Tensor mask = at::zeros_like(old), penalties = at::zeros_like(old);
    if (config().beta != 0) {
      const at::Tensor kl = old - table_of(completions, &ScoredCompletion::reference);
      penalties = -config().beta * kl;
      told["objective/kl"] = mean_of_rows(kl);
    }
    at::Tensor of_tokens = penalties.clone();
    const at::Tensor scores = scores_of(completions, rewards);
    for (int64_t i = 0; i < std::ssize(completions); ++i) {
      const auto tokens = std::ssize(completions[i].completion.tokens);
      mask[i].narrow(0, 0, tokens).fill_(1);
      of_tokens[i][tokens - 1] += scores[i];
    }
    if (config().whiten_rewards) of_tokens = whitened(of_tokens, mask, /*shifted=*/false);
    const Estimates found =
        generalized_advantages(of_tokens, values, mask, config().gamma, config().lam);
    const at::Tensor advantages = whitened(found.advantages, mask);
    for (int64_t i = 0; i < std::ssize(completions); ++i) {
      const size_t tokens = completions[i].completion.tokens.size();
      completions[i].token_advantages = row_of(advantages, i, tokens);
      completions[i].returns = row_of(found.returns, i, tokens);
    }
    told["objective/non_score_reward"] = mean_of_rows(penalties);
    told["objective/scores"] = scores.mean().item<double>();
    told["objective/rlhf_reward"] = mean_of_rows(penalties) + scores.mean().item<double>();
  }

  LossSum loss_of(const Scores& scores) const override {
    const double low = config().epsilon, high = config().highest_epsilon();
    // beta is 0, because the divergence from the reference is a part of the rewards.
    const PolicyLoss policy =
        policy_loss(scores.policy, {.epsilon_low = low, .epsilon_high = high, .beta = 0});
    const at::Tensor& mask = scores.policy.mask;
    const double range = config().cliprange_value;
    const at::Tensor of_values =
        value_loss(scores.values, scores.old_values, scores.returns, range) * mask;
    const at::Tensor weights =
        token_weights("dapo", scores.lengths, {.mean_length = scores.mean_length});
    const at::Tensor of_rows = sum_of_rows(policy.loss + config().vf_coef * of_values, context());
    LossSum loss{.sum = (of_rows * weights).sum(), .count = scores.lengths.size(0)};
    const auto tell = [&](const char* name, const at::Tensor& of_tokens) {
      loss.metrics[name] = mean_of_tokens(of_tokens, scores);
    };
    const at::Tensor difference = (scores.policy.log_probability - scores.policy.old).detach();
    const at::Tensor moved = (scores.values - scores.old_values).detach().abs();
    tell("policy/approxkl_avg", 0.5 * difference.square() * mask);
    tell("policy/clipfrac_avg", policy.clipped_low + policy.clipped_high);
    tell("loss/policy_avg", policy.loss);
    tell("loss/value_avg", of_values);
    tell("val/clipfrac_avg", moved.gt(range) * mask);
    tell("val/ratio", difference.exp() * mask);
    return loss;
  }
};

class PpoMethod final : public TuningMethod {
 public:
  std::string name() const override { return "ppo"; }
  std::string description() const override {
    return "Reinforcement learning on rewards of sampled completions, with a value head (PPO)";
  }

  bool is_online() const override { return true; }
  bool has_reference(const TuneConfig& config) const override { return config.beta != 0; }

  void set_defaults(RunConfig& run, TuneConfig& config) const override {
    run.optimizer.learning_rate = 3e-6;
    run.model.value_head = true;
    config.num_generations = 1;
    config.num_iterations = 4;
    config.beta = 0.05;
    config.temperature = 0.7;
    config.max_completion_length = 53;
  }

  void describe(ConfigSchema& schema, TuneConfig& config) const override {
    describe_online(
        schema, config,
        "The KL penalty: how much divergence from the initial model lowers the reward.");
    schema.add("tune.vf_coef", &config.vf_coef, "The weight of the value head's loss.",
               {.minimum = 0});
    schema.add(
        "tune.cliprange_value", &config.cliprange_value,
        "The clip range of the value loss: how far a predicted value may move from its value "
        "when the completion was sampled.",
        {.minimum = 0});
    schema.add("tune.gamma", &config.gamma,
               "The discount factor of generalized advantage estimation, applied to a reward for "
               "each token before it.",
               {.minimum = 0, .maximum = 1});
    schema.add(
        "tune.lam", &config.lam,
        "The lambda of generalized advantage estimation. 1: advantages depend on the rewards "
        "alone, "
        "without bias but with high variance. 0: advantages depend on the next predicted value.",
        {.minimum = 0, .maximum = 1});
    schema.add("tune.whiten_rewards", &config.whiten_rewards,
               "true: scale the rewards of tokens to standard deviation 1 over a generation.");
    schema.add("tune.missing_eos_penalty", &config.missing_eos_penalty,
               "Subtracted from the reward of a completion that is cut off before it ends.");
  }

  void validate(const RunConfig& run, const TuneConfig& config) const override {
    validate_online(*this, run, config);
  }

  std::unique_ptr<TrainingTask> make_task(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning,
                                          const Reading& reading) const override {
    return std::make_unique<Ppo>(job, context, tuning, reading);
  }
};

}  // namespace

const TuningMethod& ppo() {
  static const PpoMethod method;
  return method;
}

}  // namespace colossal::tune
