#include <ATen/ops/clamp.h>
#include <ATen/ops/tensor.h>

#include "colossal/base/error.h"
#include "colossal/tune/methods/methods.h"
#include "colossal/tune/methods/online_task.h"
#include "colossal/tune/methods/shared_keys.h"
#include "colossal/tune/rollout/completion_scores.h"
#include "colossal/tune/samples/pairs.h"

namespace colossal::tune {
namespace {

// RLOO: subtracts beta times the KL divergence from the reference, over a whole completion, from
// the completion's reward.
class Rloo final : public OnlineTask {
 public:
  Rloo(const Job& job, const ParallelContext& context, const Tuning& tuning, const Reading& reading)
      : OnlineTask(job, context, tuning, reading) {}

 private:
  std::vector<std::string> method_metrics() const override {
    return {"kl", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean"};
  }

  void find_advantages(std::vector<ScoredCompletion>& completions, const at::Tensor& rewards,
                       std::map<std::string, double>& told) const override {
    const std::vector<double>& range = config().reward_clip_range;
    at::Tensor used = range.empty() ? rewards : at::clamp(rewards, range[0], range[1]);
    if (config().beta != 0) {
      std::vector<double> left;
      for (const ScoredCompletion& each : completions) left.push_back(each.kl());
      used = used - config().beta * at::tensor(left, at::kDouble);
    }
    set_advantages(
        leave_one_out_advantages(used, config().num_generations, config().normalize_advantages),
        completions, told);
  }

  LossSum loss_of(const Scores& scores) const override {
    const PolicyScores& policy = scores.policy;
    const at::Tensor now = sum_of_rows(policy.log_probability * policy.mask, context());
    const at::Tensor old = sum_of_rows(policy.old * policy.mask, context());
    const double low = config().epsilon, high = config().highest_epsilon();
    at::Tensor losses = rloo_loss(now, old, policy.advantages, low, high);
    if (policy.importance.defined()) losses = losses * policy.importance.squeeze(1);
    const at::Tensor ratio = (now - old).detach().exp();
    const at::Tensor below = ratio.lt(1 - low).logical_and(policy.advantages.lt(0));
    const at::Tensor above = ratio.gt(1 + high).logical_and(policy.advantages.gt(0));
    return {.sum = losses.sum(),
            .count = losses.size(0),
            .metrics = {
                {"clip_ratio/low_mean", metric_of(below.to(at::kDouble))},
                {"clip_ratio/high_mean", metric_of(above.to(at::kDouble))},
                {"clip_ratio/region_mean", metric_of(below.logical_or(above).to(at::kDouble))}}};
  }
};

class RlooMethod final : public TuningMethod {
 public:
  std::string name() const override { return "rloo"; }
  std::string description() const override {
    return "Reinforcement learning: compares each sampled completion's reward with the mean of "
           "the others (RLOO)";
  }

  bool is_online() const override { return true; }
  bool has_reference(const TuneConfig& config) const override { return config.beta != 0; }

  void set_defaults(RunConfig&, TuneConfig& config) const override {
    config.num_generations = 2;
    config.beta = 0.05;
  }

  void describe(ConfigSchema& schema, TuneConfig& config) const override {
    describe_groups(schema, config);
    describe_online(
        schema, config,
        "The KL penalty: how much divergence from the initial model lowers the reward.");
    schema.add(
        "tune.normalize_advantages", &config.normalize_advantages,
        "true: shift and scale the advantages of a generation to mean 0 and standard deviation 1.");
    schema.add(
        "tune.reward_clip_range", &config.reward_clip_range,
        "The lowest and the highest reward; rewards outside are set to these. Empty: no limits.");
  }

  void validate(const RunConfig& run, const TuneConfig& config) const override {
    validate_online(*this, run, config);
    const ImportanceCorrection correction = config.correction();
    if (correction != ImportanceCorrection::none && !is_of_sequences(correction)) {
      throw ConfigError(
          "tune.importance_sampling_mode corrects single tokens, but rloo has one loss for a whole "
          "completion; use sequence_truncate or sequence_mask");
    }
    if (!config.reward_clip_range.empty() &&
        (config.reward_clip_range.size() != 2 ||
         config.reward_clip_range[0] > config.reward_clip_range[1])) {
      throw ConfigError(fmt::format(
          "tune.reward_clip_range = [{}]: must be empty, or the lowest and the highest reward",
          fmt::join(config.reward_clip_range, ", ")));
    }
  }

  std::unique_ptr<TrainingTask> make_task(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning,
                                          const Reading& reading) const override {
    return std::make_unique<Rloo>(job, context, tuning, reading);
  }
};

}  // namespace

const TuningMethod& rloo() {
  static const RlooMethod method;
  return method;
}

}  // namespace colossal::tune
