#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include "colossal/engine/state_shapes.h"
#include "colossal/tune/methods/losses.h"
#include "colossal/tune/methods/methods.h"
#include "colossal/tune/methods/reference.h"
#include "colossal/tune/methods/sample_task.h"
#include "colossal/tune/methods/shared_keys.h"
#include "colossal/tune/rollout/completion_scores.h"
#include "colossal/tune/samples/pairs.h"

namespace colossal::tune {
namespace {

// The reference point, compared to which completions gain or lose, is an estimate of the KL
// divergence of the policy from the reference. It is estimated on mismatched completions: each
// prompt of the step has the completion of the sample before it. It is one number for the whole
// global batch, whatever the layout.
class Kto final : public SampleTask {
 public:
  Kto(const Job& job, const ParallelContext& context, const Tuning& tuning, const Reading& reading)
      : SampleTask(job, context, tuning, SampleKind::unpaired, reading), of_policy_(context) {}

  std::vector<std::string> metrics() const override {
    return {"kl", "rewards/chosen", "rewards/rejected", "logps/chosen", "logps/rejected"};
  }
  std::vector<std::string> shown_metrics() const override {
    return {"kl", "rewards/chosen", "rewards/rejected"};
  }

  void begin(models::Model& model, Engine&) override {
    reference_.emplace(job(), context(), model);
    policy_ = pipelined(model, model_source_of(job()), context(), of_policy_.head());
  }

  std::map<std::string, double> complete(std::vector<data::Batch>& batches,
                                         Engine& engine) override {
    double kl = 0;
    if (has_kl()) {
      const auto half = batches.begin() + std::ssize(batches) / 2;
      const std::vector<data::Batch> mismatched(half, batches.end());
      batches.erase(half, batches.end());
      kl = estimate_kl(mismatched, engine);
    }
    reference_->score(batches, engine);
    for (data::Batch& batch : batches) batch.set("kl", at::full({}, kl, at::kDouble));
    return {};
  }

  HeadLoss loss() const override {
    return [this](models::Model& model, const nn::BlockState& state, const data::Batch& batch,
                  const nn::StepContext& step) {
      const at::Tensor found =
          score_completions(model, state, batch, step, context()).log_probability;
      const at::Tensor ratio = found - batch.at(Reference::kScores);
      const at::Tensor desirable = batch.at("desirable");
      const at::Tensor& kl = batch.at("kl");
      const at::Tensor losses = kto_loss(ratio, desirable, kl.to(ratio.scalar_type()),
                                         {.beta = config().beta,
                                          .desirable_weight = config().desirable_weight,
                                          .undesirable_weight = config().undesirable_weight});
      const at::Tensor rewards = config().beta * ratio.detach();
      const at::Tensor others = desirable.logical_not();
      return LossSum{.sum = losses.sum(),
                     .count = losses.size(0),
                     .copies = context().strategy().sp,
                     .metrics = {{"kl", metric_of(kl.unsqueeze(0))},
                                 {"rewards/chosen", metric_of(rewards.masked_select(desirable))},
                                 {"rewards/rejected", metric_of(rewards.masked_select(others))},
                                 {"logps/chosen", metric_of(found.masked_select(desirable))},
                                 {"logps/rejected", metric_of(found.masked_select(others))}}};
    };
  }

 private:
  bool has_kl() const { return config().loss_type.front() == "kto"; }

  double estimate_kl(const std::vector<data::Batch>& mismatched, Engine& engine) {
    engine.evaluate(
        mismatched, [] { return false; }, &policy_);
    const std::vector<at::Tensor> policy = of_policy_.take();
    const std::vector<at::Tensor> reference = reference_->scores_of(mismatched, engine);
    double sum = 0, rows = 0;
    for (size_t i = 0; i < policy.size(); ++i) {
      sum += (policy[i] - reference[i]).sum(at::kDouble).item<double>();
      rows += static_cast<double>(policy[i].size(0));
    }
    return std::max(0.0, mean_over_ranks(sum, rows));
  }

  // Returns the step's micro-batches. If the loss has a KL term, the same number of mismatched
  // micro-batches follows.
  std::vector<data::Batch> make_batches(const std::vector<MicroBatch>& drawn) const override {
    std::vector<data::Batch> batches;
    for (const MicroBatch& micro_batch : drawn) batches.push_back(matched(micro_batch));
    if (!has_kl()) return batches;
    for (const MicroBatch& micro_batch : drawn) batches.push_back(mismatched(micro_batch));
    return batches;
  }

  data::Batch matched(const MicroBatch& micro_batch) const {
    std::vector<const Row*> rows;
    std::vector<int64_t> ids;
    at::Tensor desirable = at::full({std::ssize(micro_batch)}, false, at::kBool);
    for (int64_t i = 0; i < std::ssize(micro_batch); ++i) {
      rows.push_back(&micro_batch[i].sample->rows.front());
      ids.push_back(2 * micro_batch[i].id);
      desirable[i] = micro_batch[i].sample->desirable;
    }
    data::Batch batch = collate_rows(rows, std::move(ids));
    batch.set("desirable", desirable);
    return batch;
  }

  data::Batch mismatched(const MicroBatch& micro_batch) const {
    std::vector<Row> made;
    std::vector<int64_t> ids;
    for (const Drawn& each : micro_batch) {
      made.push_back(join(each.sample->rows.front(), each.previous->rows.front()));
      ids.push_back(2 * each.id + 1);
    }
    std::vector<const Row*> rows;
    for (const Row& row : made) rows.push_back(&row);
    return collate_rows(rows, std::move(ids));
  }

  // Returns the prompt of one row with the completion of another, cut to the sequence length.
  Row join(const Row& prompt, const Row& completion) const {
    Row row{.tokens = {prompt.tokens.begin(), prompt.tokens.begin() + prompt.prompt_tokens},
            .learned = std::vector<uint8_t>(prompt.prompt_tokens, 0),
            .prompt_tokens = prompt.prompt_tokens};
    row.tokens.insert(row.tokens.end(), completion.tokens.begin() + completion.prompt_tokens,
                      completion.tokens.end());
    row.learned.resize(row.tokens.size(), 1);
    if (std::ssize(row.tokens) > job().sequence_length) {
      row.tokens.resize(job().sequence_length);
      row.learned.resize(job().sequence_length);
    }
    return row;
  }

  std::optional<Reference> reference_;
  ScoreCollector of_policy_;
  StagedModel policy_;
};

class KtoMethod final : public TuningMethod {
 public:
  std::string name() const override { return "kto"; }
  std::string description() const override {
    return "Preference tuning on single completions labelled desirable or undesirable, with a "
           "reference model (KTO)";
  }

  std::vector<std::string> loss_types() const override { return {"kto", "apo_zero_unpaired"}; }
  bool has_reference(const TuneConfig&) const override { return true; }

  void set_defaults(RunConfig& run, TuneConfig& config) const override {
    run.train.dropout = 0;
    config.loss_type = {"kto"};
  }

  void describe(ConfigSchema& schema, TuneConfig& config) const override {
    describe_beta(schema, config,
                  "How closely the model stays to the reference model: larger is closer.");
    schema.add("tune.desirable_weight", &config.desirable_weight,
               "The weight of the loss of desirable completions.", {.minimum = 0});
    schema.add("tune.undesirable_weight", &config.undesirable_weight,
               "The weight of the loss of undesirable completions.", {.minimum = 0});
  }

  std::unique_ptr<TrainingTask> make_task(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning,
                                          const Reading& reading) const override {
    return std::make_unique<Kto>(job, context, tuning, reading);
  }
};

}  // namespace

const TuningMethod& kto() {
  static const KtoMethod method;
  return method;
}

}  // namespace colossal::tune
