#include "colossal/tune/methods/online_task.h"
#include "colossal/tune/methods/tasks.h"
#include "colossal/tune/rollout/completion_scores.h"

namespace colossal::tune {
namespace {

class Grpo final : public OnlineTask {
 public:
  Grpo(const Job& job, const ParallelContext& context, const Tuning& tuning, const Reading& reading)
      : OnlineTask(job, context, tuning, reading) {}

 private:
  std::vector<std::string> method_metrics() const override {
    return {"kl", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean"};
  }

  void find_advantages(std::vector<ScoredCompletion>& completions, const at::Tensor& rewards,
                       std::map<std::string, double>& told) const override {
    set_advantages(group_advantages(rewards, config().num_generations, config().scale_rewards),
                   completions, told);
  }

  PolicyOptions options() const {
    return {.loss_type = config().loss_type.front(),
            .importance_level = config().importance_sampling_level,
            .epsilon_low = config().epsilon,
            .epsilon_high = config().highest_epsilon(),
            .delta = config().delta,
            .beta = config().beta,
            .corrects_kl = config().use_bias_correction_kl};
  }

  // Returns the mean log ratio of each completion's tokens; undefined at token level, which does
  // not need it.
  at::Tensor log_ratio_means(const Scores& scores) const {
    if (config().importance_sampling_level == ImportanceLevel::token) return {};
    return shared_sum_of_rows(log_ratios(scores.policy), context()) / scores.lengths.clamp_min(1);
  }

  LossSum loss_of(const Scores& scores) const override {
    const PolicyLoss found = policy_loss(scores.policy, options(), log_ratio_means(scores));
    const at::Tensor weights =
        token_weights(options().loss_type, scores.lengths,
                      {.mean_length = scores.mean_length,
                       .max_length = static_cast<double>(config().max_completion_length)});
    LossSum loss{.sum = (sum_of_rows(found.loss, context()) * weights).sum(),
                 .count = scores.lengths.size(0)};
    const auto tell = [&](const char* name, const at::Tensor& of_tokens) {
      loss.metrics[name] = mean_of_tokens(of_tokens, scores);
    };
    if (found.kl.defined()) tell("kl", found.kl);
    tell("clip_ratio/low_mean", found.clipped_low);
    tell("clip_ratio/high_mean", found.clipped_high);
    tell("clip_ratio/region_mean", found.clipped_low + found.clipped_high);
    return loss;
  }
};

}  // namespace

std::unique_ptr<TrainingTask> make_grpo(const Job& job, const ParallelContext& context,
                                        const Tuning& tuning, const Reading& reading) {
  return std::make_unique<Grpo>(job, context, tuning, reading);
}

}  // namespace colossal::tune
