#include <ATen/ops/ones.h>

#include <algorithm>

#include "colossal/data/text_batch.h"
#include "colossal/tune/methods/reference.h"
#include "colossal/tune/methods/tasks.h"
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
      return loss_of(losses(scores, counts_tokens() ? mean_chosen_labels(batch) : 1),
                     measure(chosen, rejected, scores));
    };
  }

 private:
  // Whether a loss is a mean over the tokens of the global batch.
  bool counts_tokens() const { return std::ranges::count(config().loss_type, "sft") > 0; }

  // Returns the weighted sum of all loss types, [pairs].
  at::Tensor losses(const PairScores& scores, double mean_chosen_tokens) const {
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

}  // namespace

std::unique_ptr<TrainingTask> make_dpo(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading) {
  return std::make_unique<Dpo>(job, context, tuning, reading);
}

}  // namespace colossal::tune
