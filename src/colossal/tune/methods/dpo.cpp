#include <ATen/ops/ones.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/data/text_batch.h"
#include "colossal/tune/methods/methods.h"
#include "colossal/tune/methods/reference.h"
#include "colossal/tune/methods/shared_keys.h"
#include "colossal/tune/samples/pairs.h"

namespace colossal::tune {
namespace {

class Dpo final : public PairTask {
 public:
  Dpo(const Job& job, const ParallelContext& context, const Tuning& tuning, const Reading& reading)
      : PairTask(job, context, tuning, reading) {}

  std::vector<std::string> metrics() const override { return pair_metrics(); }
  std::vector<std::string> shown_metrics() const override {
    return {"rewards/accuracies", "rewards/margins"};
  }

  void begin(models::Model& model, Engine&) override {
    reference_.emplace(job(), context(), model);
  }

  std::map<std::string, double> complete(std::vector<data::Batch>& batches,
                                         Engine& engine) override {
    reference_->score(batches, engine);
    if (counts_tokens()) add_mean_chosen_labels(batches);
    return {};
  }

  HeadLoss loss() const override {
    return [this](models::Model& model, const nn::BlockState& state, const data::Batch& batch,
                  const nn::StepContext& step) {
      const CompletionScores found = score_completions(model, state, batch, step, context());
      PairScores scores = pairs_of(found.log_probability, batch);
      const PairScores reference = pairs_of(batch.at(Reference::kScores), batch);
      scores.reference_chosen = reference.chosen;
      scores.reference_rejected = reference.rejected;
      const at::Tensor chosen = (scores.chosen - reference.chosen).detach() * config().beta;
      const at::Tensor rejected = (scores.rejected - reference.rejected).detach() * config().beta;
      return loss_of(losses(scores, batch.find(kMeanChosenLabels)),
                     measure(chosen, rejected, scores));
    };
  }

 private:
  // Whether a loss is a mean over the tokens of the global batch.
  bool counts_tokens() const { return std::ranges::count(config().loss_type, "sft") > 0; }

  // Returns the weighted sum of all loss types, [pairs].
  at::Tensor losses(const PairScores& scores, const at::Tensor& mean_chosen_tokens) const {
    const DpoOptions options{.beta = config().beta,
                             .label_smoothing = config().label_smoothing,
                             .divergence = config().f_divergence_type,
                             .alpha = config().f_alpha_divergence_coef,
                             .discopop_tau = config().discopop_tau,
                             .mean_chosen_tokens = mean_chosen_tokens};
    at::Tensor sum;
    for (size_t i = 0; i < config().loss_type.size(); ++i) {
      at::Tensor each = dpo_loss(config().loss_type[i], scores, options);
      if (!config().loss_weights.empty()) each = each * config().loss_weights[i];
      sum = sum.defined() ? sum + each : each;
    }
    return sum;
  }

  // Sets label weights: with ld_alpha, it is the weight of the tokens by which a completion is
  // longer than the other one of its pair.
  void add_fields(data::Batch& batch, const std::vector<const Row*>& rows) const override {
    if (!config().ld_alpha) return;
    const int64_t pairs = std::ssize(rows) / 2;
    at::Tensor weights = at::ones(batch.at(data::kLabels).sizes(), at::kDouble);
    for (int64_t i = 0; i < 2 * pairs; ++i) {
      const auto labels = [&](const Row* row) {
        return std::ssize(row->tokens) - row->prompt_tokens;
      };
      const int64_t shared = std::min(labels(rows[i % pairs]), labels(rows[i % pairs + pairs]));
      const int64_t tail = rows[i]->prompt_tokens - 1 + shared;  // label t is token t + 1
      if (tail < weights.size(1)) weights[i].slice(0, tail).fill_(*config().ld_alpha);
    }
    batch.set(kLabelWeights, weights, 1);
  }

  std::optional<Reference> reference_;
};

class DpoMethod final : public TuningMethod {
 public:
  std::string name() const override { return "dpo"; }
  std::string description() const override {
    return "Preference tuning on pairs of a better and a worse completion, with a reference "
           "model (DPO, variants)";
  }

  std::vector<std::string> loss_types() const override { return dpo_loss_types(); }
  bool sums_losses() const override { return true; }
  bool has_pairs() const override { return true; }
  bool has_reference(const TuneConfig&) const override { return true; }
  bool takes_encoder_decoders() const override { return true; }

  void set_defaults(RunConfig& run, TuneConfig& config) const override {
    run.train.dropout = 0;
    config.loss_type = {"sigmoid"};
  }

  void describe(ConfigSchema& schema, TuneConfig& config) const override {
    describe_beta(schema, config,
                  "How closely the model stays to the reference model: larger is closer.");
    describe_label_smoothing(schema, config);
    schema.add("tune.f_divergence_type", &config.f_divergence_type,
               "The divergence from the reference model that scores completions.");
    schema.add("tune.f_alpha_divergence_coef", &config.f_alpha_divergence_coef,
               "The alpha of f_divergence_type = alpha_divergence.");
    schema.add("tune.discopop_tau", &config.discopop_tau,
               "The temperature of loss_type = discopop.", {.minimum = 1e-9});
    schema.add("tune.ld_alpha", &config.ld_alpha,
               "The weight of the extra tokens of the longer completion of a pair. Below 1: length "
               "has less influence.",
               {.minimum = 0, .maximum = 1, .unset = "1"});
  }

  void validate(const RunConfig&, const TuneConfig& config) const override {
    const auto has = [&](const char* type) {
      return std::ranges::find(config.loss_type, type) != config.loss_type.end();
    };
    if (has("exo_pair") && (config.label_smoothing <= 0 || config.label_smoothing >= 1)) {
      throw ConfigError(fmt::format(
          "tune.loss_type = \"exo_pair\" with tune.label_smoothing = {}: the loss needs the "
          "logarithm of the smoothing; use more than 0 and less than 1, such as 0.001",
          config.label_smoothing));
    }
    if (has("robust") && config.label_smoothing >= 0.5) {
      throw ConfigError(fmt::format(
          "tune.loss_type = \"robust\" with tune.label_smoothing = {}: must be from 0 to "
          "less than 0.5; at 0.5 labels carry no information",
          config.label_smoothing));
    }
  }

  std::unique_ptr<TrainingTask> make_task(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning,
                                          const Reading& reading) const override {
    return std::make_unique<Dpo>(job, context, tuning, reading);
  }
};

}  // namespace

const TuningMethod& dpo() {
  static const DpoMethod method;
  return method;
}

}  // namespace colossal::tune
