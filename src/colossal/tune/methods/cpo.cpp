#include <ATen/ops/log_sigmoid.h>

#include "colossal/data/text_batch.h"
#include "colossal/ops/loss/linear_cross_entropy.h"
#include "colossal/tune/methods/methods.h"
#include "colossal/tune/methods/shared_keys.h"
#include "colossal/tune/samples/pairs.h"

namespace colossal::tune {
namespace {

// Base of methods without a reference model. The loss of the chosen completion itself, per token,
// keeps the model in place.
class WithoutReference : public PairTask {
 public:
  using PairTask::PairTask;

  std::vector<std::string> shown_metrics() const override {
    return {"rewards/accuracies", "rewards/margins"};
  }
  std::map<std::string, double> complete(std::vector<data::Batch>& batches, Engine&) override {
    add_mean_chosen_labels(batches);
    return {};
  }

 protected:
  // Returns -log pi of all labels of the chosen rows, divided by their mean number: [pairs].
  static at::Tensor chosen_loss(const CompletionScores& found, const data::Batch& batch) {
    const int64_t pairs = found.of_all_labels.size(0) / 2;
    return -found.of_all_labels.narrow(0, 0, pairs) / batch.at(kMeanChosenLabels);
  }
};

class Cpo final : public WithoutReference {
 public:
  using WithoutReference::WithoutReference;

  std::vector<std::string> metrics() const override {
    std::vector<std::string> names = pair_metrics();
    names.push_back("nll_loss");
    return names;
  }

  HeadLoss loss() const override {
    return [this](models::Model& model, const nn::BlockState& state, const data::Batch& batch,
                  const nn::StepContext& step) {
      const CompletionScores found = score_completions(model, state, batch, step, context());
      const std::string& type = config().loss_type.front();
      const PairScores sums = pairs_of(found.log_probability, batch);
      const PairScores scores = uses_token_means(type) ? means_of(sums) : sums;
      const CpoOptions options{.beta = config().beta,
                               .label_smoothing = config().label_smoothing,
                               .simpo_gamma = config().simpo_gamma,
                               .alpha = config().alpha};
      at::Tensor losses = cpo_loss(type, scores, options);
      const at::Tensor own = chosen_loss(found, batch);
      if (config().cpo_alpha != 0) losses = losses + config().cpo_alpha * own;
      const CpoRewards rewards = cpo_rewards(scores, options);
      auto metrics = measure(config().beta * rewards.chosen.detach(),
                             config().beta * rewards.rejected.detach(), scores);
      metrics["nll_loss"] = metric_of(own);
      return loss_of(losses, std::move(metrics));
    };
  }
};

class Orpo final : public WithoutReference {
 public:
  using WithoutReference::WithoutReference;

  std::vector<std::string> metrics() const override {
    std::vector<std::string> names = pair_metrics();
    names.insert(names.end(), {"nll_loss", "log_odds_ratio", "log_odds_chosen"});
    return names;
  }

  HeadLoss loss() const override {
    return [this](models::Model& model, const nn::BlockState& state, const data::Batch& batch,
                  const nn::StepContext& step) {
      const CompletionScores found = score_completions(model, state, batch, step, context());
      const PairScores means = means_of(pairs_of(found.log_probability, batch));
      const at::Tensor odds = log_odds(means), ratio = at::log_sigmoid(odds);
      const at::Tensor own = chosen_loss(found, batch);
      auto metrics = measure(config().beta * means.chosen.detach(),
                             config().beta * means.rejected.detach(), means);
      metrics["nll_loss"] = metric_of(own);
      metrics["log_odds_ratio"] = metric_of(ratio);
      metrics["log_odds_chosen"] = metric_of(odds);
      return loss_of(own - config().beta * ratio, std::move(metrics));
    };
  }

 private:
  // The loss of the chosen rows includes their prompts; the odds ratio is of completions only.
  void add_fields(data::Batch& batch, const std::vector<const Row*>& rows) const override {
    const int64_t pairs = std::ssize(rows) / 2;
    at::Tensor of_completion = batch.at(data::kLabels).ne(ops::kIgnoredLabel).to(at::kDouble);
    for (int64_t i = 0; i < pairs; ++i) {
      for (int64_t t = 0; t + 1 < rows[i]->prompt_tokens; ++t) {
        batch.at(data::kLabels)[i][t] = rows[i]->tokens[t + 1];
      }
    }
    batch.set(kLabelWeights, of_completion, 1);
  }
};

// What CPO and SimPO share.
class CpoKeys : public TuningMethod {
 public:
  bool has_pairs() const override { return true; }
  bool takes_encoder_decoders() const override { return true; }

  void describe(ConfigSchema& schema, TuneConfig& config) const override {
    describe_beta(
        schema, config,
        "How sharply the loss separates chosen from rejected completions: larger is sharper.");
    describe_label_smoothing(schema, config);
    schema.add("tune.simpo_gamma", &config.simpo_gamma,
               "With loss_type = simpo: the target margin between the chosen and the rejected "
               "completion.");
    schema.add("tune.cpo_alpha", &config.cpo_alpha,
               "The weight of the supervised loss of the chosen completion, per token.",
               {.minimum = 0});
    schema.add("tune.alpha", &config.alpha,
               "How strongly AlphaPO transforms rewards away from log-probabilities. 0: rewards "
               "are log-probabilities.");
  }

  std::unique_ptr<TrainingTask> make_task(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning,
                                          const Reading& reading) const override {
    return std::make_unique<Cpo>(job, context, tuning, reading);
  }
};

class CpoMethod final : public CpoKeys {
 public:
  std::string name() const override { return "cpo"; }
  std::string description() const override {
    return "Preference tuning on pairs, plus supervised fine-tuning on the better completion; no "
           "reference model (CPO)";
  }
  std::vector<std::string> loss_types() const override { return cpo_loss_types(); }
  void set_defaults(RunConfig&, TuneConfig& config) const override {
    config.loss_type = {"sigmoid"};
  }
};

class SimpoMethod final : public CpoKeys {
 public:
  std::string name() const override { return "simpo"; }
  std::string description() const override {
    return "Preference tuning on pairs, by mean log-probabilities per token; no reference model "
           "(SimPO)";
  }
  void set_defaults(RunConfig&, TuneConfig& config) const override {
    config.loss_type = {"simpo"};
    config.cpo_alpha = 0;
  }
};

class OrpoMethod final : public TuningMethod {
 public:
  std::string name() const override { return "orpo"; }
  std::string description() const override {
    return "Supervised fine-tuning on chosen completions plus preference tuning against rejected "
           "ones; no reference model (ORPO)";
  }

  bool has_pairs() const override { return true; }
  bool takes_encoder_decoders() const override { return true; }
  void set_defaults(RunConfig&, TuneConfig&) const override {}
  void describe(ConfigSchema& schema, TuneConfig& config) const override {
    describe_beta(
        schema, config,
        "The weight of the odds-ratio loss, relative to the loss of the chosen completion.");
  }

  std::unique_ptr<TrainingTask> make_task(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning,
                                          const Reading& reading) const override {
    return std::make_unique<Orpo>(job, context, tuning, reading);
  }
};

}  // namespace

const TuningMethod& cpo() {
  static const CpoMethod method;
  return method;
}

const TuningMethod& simpo() {
  static const SimpoMethod method;
  return method;
}

const TuningMethod& orpo() {
  static const OrpoMethod method;
  return method;
}

}  // namespace colossal::tune
