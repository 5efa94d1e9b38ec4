#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include "colossal/base/error.h"
#include "colossal/data/text_batch.h"
#include "colossal/engine/frozen_model.h"
#include "colossal/ops/loss/linear_cross_entropy.h"
#include "colossal/tune/methods/methods.h"
#include "colossal/tune/methods/reference.h"
#include "colossal/tune/methods/sample_task.h"

namespace colossal::tune {
namespace {

// Fields of a batch.
constexpr const char* kBefore = "tokens_before";    // for each input: the token before it
constexpr const char* kGuessed = "guessed_logits";  // result of TokenHead::local_logits()

// Shifts each row by one token to the left; fills its end with `fill`.
at::Tensor shifted(const at::Tensor& rows, int64_t fill) {
  if (rows.size(1) == 0) return rows;
  return at::cat(
      {rows.narrow(1, 1, rows.size(1) - 1), at::full({rows.size(0), 1}, fill, rows.options())}, 1);
}

// Trains a draft head on what it reads when it drafts: the model's state of token i, and token i +
// 1. It learns the model's distribution of token i + 2.
class DraftHead final : public SampleTask {
 public:
  DraftHead(const Job& job, const ParallelContext& context, const Tuning& tuning,
            const Reading& reading)
      : SampleTask(job, context, tuning, SampleKind::language_modeling, reading),
        teacher_job_(teacher_of(job, tuning.config)),
        states_([](models::Model& model, const nn::BlockState& state, const data::Batch&,
                   const nn::StepContext& step) {
          return model.token_head().final_states(state.output(), step).detach();
        }),
        logits_([](models::Model& model, const nn::BlockState& state, const data::Batch&,
                   const nn::StepContext& step) {
          return model.token_head().local_logits(state.output(), 1, step).detach();
        }) {}

  void begin(models::Model&, Engine&) override {
    teacher_.emplace(teacher_job_, context(), [this](auto&&... arguments) {
      return (wants_states_ ? states_ : logits_).head()(arguments...);
    });
  }

  // Runs the model twice: over the tokens before the inputs, for their states; and over the inputs,
  // for its logits after them. The context of the second pass lacks the first token.
  std::map<std::string, double> complete(std::vector<data::Batch>& batches, Engine&) override {
    std::vector<data::Batch> before = batches;
    for (data::Batch& batch : before) batch.set(data::kTokens, batch.at(kBefore), 1);
    wants_states_ = true;
    teacher_->run(before);
    states_.move_to(batches, data::kTargetStates);
    wants_states_ = false;
    teacher_->run(batches);
    logits_.move_to(batches, kGuessed);
    return {};
  }

  HeadLoss loss() const override {
    return [](models::Model& model, const nn::BlockState& state, const data::Batch& batch,
              const nn::StepContext& step) {
      constexpr double kForward = 0;  // KL(model || head)
      const at::Tensor found =
          model.token_head().divergences(state.output(), batch.at(kGuessed), kForward, 1, step);
      const at::Tensor mask =
          batch.at(data::kLabels).ne(ops::kIgnoredLabel).to(found.scalar_type());
      return LossSum{.sum = (found * mask).sum(), .count = mask.sum()};
    };
  }

  HeadLoss loss_to_record() const override {
    return [](models::Model& model, const nn::BlockState& state, const data::Batch& batch,
              const nn::StepContext& step) {
      return LossSum{.sum = model.token_head().local_logits(state.output(), 1, step).sum(),
                     .count = batch.at(data::kLabels).numel()};
    };
  }

 private:
  static Job teacher_of(const Job& job, const TuneConfig& config) {
    const std::string& folder = config.teacher.empty() ? job.config.model.path : config.teacher;
    const char* key = config.teacher.empty() ? "model.path" : "tune.teacher";
    Job teacher = job_of_folder(job, folder, fmt::format("{} = \"{}\"", key, folder));
    const models::ModelFacts &its = teacher.model.facts, &own = job.model.facts;
    if (its.hidden != own.hidden || its.vocabulary != own.vocabulary) {
      throw ConfigError(fmt::format(
          "{} = \"{}\": its hidden states have size {} and its vocabulary has {} tokens, but the "
          "head needs {} and {}; give the model that the head was trained for",
          key, folder, its.hidden, its.vocabulary, own.hidden, own.vocabulary));
    }
    return teacher;
  }

  std::vector<data::Batch> make_batches(const std::vector<MicroBatch>& drawn) const override {
    std::vector<data::Batch> batches = collate_samples(drawn);
    for (data::Batch& batch : batches) {
      batch.set(kBefore, batch.at(data::kTokens), 1);
      batch.set(data::kTokens, shifted(batch.at(data::kTokens), 0), 1);
      batch.set(data::kLabels, shifted(batch.at(data::kLabels), ops::kIgnoredLabel), 1);
    }
    return batches;
  }

  Job teacher_job_;
  ScoreCollector states_, logits_;
  bool wants_states_ = false;
  std::optional<FrozenModel> teacher_;
};

class DraftHeadMethod final : public TuningMethod {
 public:
  std::string name() const override { return "draft_head"; }
  std::string description() const override {
    return "Train a small head that guesses a model's next tokens from its hidden states, for "
           "--speculate=eagle (EAGLE)";
  }

  Teacher teacher(const RunConfig& run, const TuneConfig& config) const override {
    return config.teacher.empty() ? Teacher{"model.path", run.model.path}
                                  : Teacher{"tune.teacher", config.teacher};
  }

  void set_defaults(RunConfig& run, TuneConfig&) const override {
    run.optimizer.learning_rate = 3e-4;
    run.model.draft_head = true;
  }

  void describe(ConfigSchema& schema, TuneConfig& config) const override {
    schema.add("tune.teacher", &config.teacher,
               "The folder of the model to guess tokens for. Empty: the model in model.path. Give "
               "it if model.path is the folder of a head to train further.",
               {.per_rank = true});
  }

  void validate(const RunConfig& run, const TuneConfig&) const override {
    if (run.parallel.tp_mode == "1d") return;
    throw ConfigError(fmt::format(
        "parallel.tp_mode = \"{}\" with tune draft_head: this mode shards linear layers in pairs, "
        "but the head's first linear layer is not part of a pair; use parallel.tp_mode = \"1d\"",
        run.parallel.tp_mode));
  }

  std::unique_ptr<TrainingTask> make_task(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning,
                                          const Reading& reading) const override {
    return std::make_unique<DraftHead>(job, context, tuning, reading);
  }
};

}  // namespace

const TuningMethod& draft_head() {
  static const DraftHeadMethod method;
  return method;
}

}  // namespace colossal::tune
