#include "colossal/base/error.h"
#include "colossal/tune/methods/methods.h"
#include "colossal/tune/methods/online_task.h"
#include "colossal/tune/methods/shared_keys.h"
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

class GrpoMethod final : public TuningMethod {
 public:
  std::string name() const override { return "grpo"; }
  std::string description() const override {
    return "Reinforcement learning: compares the rewards of sampled completions in groups (GRPO, "
           "DAPO)";
  }

  std::vector<std::string> loss_types() const override { return policy_loss_types(); }
  bool is_online() const override { return true; }
  bool has_reference(const TuneConfig& config) const override { return config.beta != 0; }

  void set_defaults(RunConfig&, TuneConfig& config) const override {
    config.loss_type = {"dapo"};
    config.beta = 0;
  }

  void describe(ConfigSchema& schema, TuneConfig& config) const override {
    describe_groups(schema, config);
    describe_online(schema, config,
                    "The weight of the divergence from the initial model in the loss. 0: no such "
                    "term, and no reference model is kept.");
    schema.add(
        "tune.delta", &config.delta,
        "Upper limit of the ratio of new to old probability, whatever the sign of the advantage.",
        {.minimum = 0, .unset = "none"});
    schema.add(
        "tune.importance_sampling_level", &config.importance_sampling_level,
        "token: each token has its own ratio of new to old probability. sequence: all tokens "
        "of a completion share the geometric mean of their ratios (GSPO).");
    schema.add(
        "tune.scale_rewards", &config.scale_rewards,
        "What advantages are divided by. group: the standard deviation of the group's rewards. "
        "batch: the standard deviation of the generation's rewards. none: not divided.");
    schema.add("tune.use_bias_correction_kl", &config.use_bias_correction_kl,
               "true: multiply a token's divergence by its ratio of new to old probability.");
  }

  void validate(const RunConfig& run, const TuneConfig& config) const override {
    validate_online(*this, run, config);
    if (config.delta && *config.delta <= 1 + config.highest_epsilon()) {
      throw ConfigError(fmt::format(
          "tune.delta = {}: must be above 1 + tune.epsilon_high = {}, as it limits larger ratios",
          *config.delta, 1 + config.highest_epsilon()));
    }
  }

  std::unique_ptr<TrainingTask> make_task(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning,
                                          const Reading& reading) const override {
    return std::make_unique<Grpo>(job, context, tuning, reading);
  }
};

}  // namespace

const TuningMethod& grpo() {
  static const GrpoMethod method;
  return method;
}

}  // namespace colossal::tune
