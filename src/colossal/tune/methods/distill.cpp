#include <ATen/ops/full.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/base/random.h"
#include "colossal/data/text_batch.h"
#include "colossal/engine/frozen_model.h"
#include "colossal/ops/loss/linear_cross_entropy.h"
#include "colossal/training/training_data.h"
#include "colossal/tune/methods/methods.h"
#include "colossal/tune/methods/policy_scorer.h"
#include "colossal/tune/methods/reference.h"
#include "colossal/tune/methods/sample_task.h"
#include "colossal/tune/methods/shared_keys.h"
#include "colossal/tune/rollout/generation.h"
#include "colossal/tune/rollout/rollout.h"

namespace colossal::tune {
namespace {

// Fields of a batch.
constexpr const char* kTeacher = "teacher_logits";  // result of TokenHead::local_logits()
constexpr const char* kOnPolicy = "on_policy";

// Throws ConfigError unless every token means the same in both models.
void require_same_tokens(const Job& student, const Job& teacher) {
  const std::string setting = fmt::format("tune.teacher = \"{}\"", teacher.config.model.path);
  const int64_t mine = student.model.facts.vocabulary, its = teacher.model.facts.vocabulary;
  if (mine != its) {
    throw ConfigError(
        fmt::format("{}: it has a vocabulary of {} tokens, the model {}; the probabilities of all "
                    "tokens are compared, so use a teacher with the same vocabulary",
                    setting, its, mine));
  }
  if (teacher.tokenizer == student.tokenizer) return;
  const auto here = text::make_tokenizer(student.tokenizer);
  const auto there = text::make_tokenizer(teacher.tokenizer);
  for (int32_t token = 0; token < mine; ++token) {
    const std::string a = here->decode_continuation({&token, 1});
    const std::string b = there->decode_continuation({&token, 1});
    if (a == b) continue;
    throw ConfigError(
        fmt::format("{}: token {} is \"{}\" there, but \"{}\" in the run's tokenizer; use a "
                    "teacher with the same vocabulary",
                    setting, token, b, a));
  }
}

// Learns a teacher's distribution of each next token, on given completions or on the student's own
// (GKD, Agarwal et al. 2024).
class Distill final : public SampleTask {
 public:
  Distill(const Job& job, const ParallelContext& context, const Tuning& tuning,
          const Reading& reading)
      : SampleTask(job, context, tuning,
                   tuning.config.lmbda == 1 ? SampleKind::prompt : SampleKind::completion, reading),
        teacher_job_(job_of_folder(job, tuning.config.teacher,
                                   fmt::format("tune.teacher = \"{}\"", tuning.config.teacher))),
        of_teacher_([temperature = tuning.config.temperature](
                        models::Model& model, const nn::BlockState& state, const data::Batch&,
                        const nn::StepContext& step) {
          return model.token_head().local_logits(state.output(), temperature, step).detach();
        }),
        rollout_(rollout_options(tuning.config, job, tokenizer(), taught())) {
    if (teacher_job_.model.transformer.scores > 0) {
      throw ConfigError(fmt::format(
          "tune.teacher = \"{}\": this model scores texts; give a model that predicts tokens",
          tuning.config.teacher));
    }
    require_same_tokens(job, teacher_job_);
  }

  std::vector<std::string> shown_metrics() const override { return {kOnPolicy}; }

  data::BatchLoader training_loader(int64_t steps_done) const override {
    return loader_of([this](int64_t step) { return read_training_step(step); }, steps_done);
  }

  void begin(models::Model& model, Engine&) override {
    student_ = &model;
    teacher_.emplace(teacher_job_, context(), of_teacher_.head());
  }

  ConcurrentWork begin_step(Engine& engine) override {
    trains_ = true;
    samples_ = samples_itself(engine.steps_done());
    return {};
  }

  std::map<std::string, double> complete(std::vector<data::Batch>& batches,
                                         Engine& engine) override {
    const bool samples = std::exchange(samples_, false);
    std::map<std::string, double> found;
    if (samples) found = sample(batches, engine);
    if (std::exchange(trains_, false)) found[kOnPolicy] = samples ? 1 : 0;
    teacher_->run(batches);
    of_teacher_.move_to(batches, kTeacher);
    return found;
  }

  HeadLoss loss() const override {
    return [this](models::Model& model, const nn::BlockState& state, const data::Batch& batch,
                  const nn::StepContext& step) {
      const at::Tensor found = model.token_head().divergences(
          state.output(), batch.at(kTeacher), config().beta, config().temperature, step);
      const at::Tensor mask =
          batch.at(data::kLabels).ne(ops::kIgnoredLabel).to(found.scalar_type());
      LossSum loss{.sum = (found * mask).sum(), .count = mask.sum()};
      return loss;
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
  // Whether a step learns from the student's own completions: a random choice that depends on the
  // seed and the step only.
  bool samples_itself(int64_t step) const {
    const auto seed = static_cast<uint64_t>(job().config.train.seed);
    return random_uniform(random_key(seed, 0, kOnPolicy), 0, static_cast<uint64_t>(step)) <
           config().lmbda;
  }

  // Replaces the completions of this replica's batches by the student's own. Returns metrics of
  // their lengths.
  std::map<std::string, double> sample(std::vector<data::Batch>& batches, Engine& engine) const {
    const int64_t first = engine.steps_done() * shape().global_batch;
    const auto seed = static_cast<uint64_t>(job().config.train.seed);
    std::vector<Prompt> prompts;
    for (int64_t position = first; position < first + shape().global_batch; ++position) {
      const Row& row = sample_at(position).rows.front();
      prompts.push_back({.tokens = {row.tokens.begin(), row.tokens.begin() + row.prompt_tokens},
                         .seed = seed_of_completion(seed, position),
                         .max_new_tokens = std::min(config().max_completion_length,
                                                    job().sequence_length - row.prompt_tokens)});
    }
    const std::vector<Completion> completions = roll_out_on_all_ranks(
        sampled_model(*student_, job().model.facts, engine), prompts, rollout_);
    std::vector<ScoredCompletion> all;
    for (const Completion& each : completions) all.push_back({.completion = each});
    for (data::Batch& batch : batches) {
      std::vector<Row> rows;
      for (const int64_t position : batch.sample_ids) {
        rows.push_back(row_of(prompts[position - first], completions[position - first]));
      }
      batch = make_batch(rows, batch.sample_ids);
    }
    return length_metrics(all);
  }

  static Row row_of(const Prompt& prompt, const Completion& completion) {
    Row row{.tokens = prompt.tokens, .learned = std::vector<uint8_t>(prompt.tokens.size(), 0)};
    row.prompt_tokens = std::ssize(prompt.tokens);
    row.tokens.insert(row.tokens.end(), completion.tokens.begin(), completion.tokens.end());
    row.learned.resize(row.tokens.size(), 1);
    return row;
  }

  data::Batch make_batch(const std::vector<Row>& rows, std::vector<int64_t> ids) const {
    std::vector<const Row*> pointers;
    for (const Row& row : rows) pointers.push_back(&row);
    return collate_rows(pointers, std::move(ids));
  }

  std::vector<data::Batch> make_batches(const std::vector<MicroBatch>& drawn) const override {
    return collate_samples(drawn);
  }

  Job teacher_job_;
  ScoreCollector of_teacher_;
  RolloutOptions rollout_;
  // Of the training step that has begun: whether complete() has not yet been called, and whether it
  // samples completions.
  bool trains_ = false, samples_ = false;
  models::Model* student_ = nullptr;
  std::optional<FrozenModel> teacher_;
};

class DistillMethod final : public TuningMethod {
 public:
  std::string name() const override { return "distill"; }
  std::string description() const override {
    return "Distillation: learn a teacher model's probabilities, on completions that the model "
           "samples (GKD)";
  }

  bool has_prompts_alone(const TuneConfig& config) const override { return config.lmbda == 1; }
  bool needs_prompts(const TuneConfig& config) const override { return config.lmbda > 0; }
  Teacher teacher(const RunConfig&, const TuneConfig& config) const override {
    return {"tune.teacher", config.teacher};
  }

  void set_defaults(RunConfig&, TuneConfig& config) const override { config.beta = 1; }

  void describe(ConfigSchema& schema, TuneConfig& config) const override {
    schema.add(
        "tune.teacher", &config.teacher,
        "The folder of the teacher model, or its name on the Hugging Face Hub if it has been "
        "downloaded. It needs the same vocabulary, but may be of another "
        "size or family.",
        {.per_rank = true});
    schema.add(
        "tune.beta", &config.beta,
        "Which divergence from the teacher is the loss. 0: KL(teacher || model), forward. 1: "
        "KL(model || teacher), reverse. Between: the generalized Jensen-Shannon divergence.",
        {.minimum = 0, .maximum = 1});
    schema.add("tune.lmbda", &config.lmbda,
               "Fraction of the steps that train on completions sampled from the model itself. The "
               "others train on the completions of data.train.",
               {.minimum = 0, .maximum = 1});
    describe_sampling(schema, config);
  }

  void validate(const RunConfig& run, const TuneConfig& config) const override {
    if (config.teacher.empty()) {
      throw ConfigError("tune.teacher is empty: distill needs a teacher model; give its folder");
    }
    if (config.lmbda == 1 && !run.data.validation.empty()) {
      throw ConfigError(
          "data.validation with tune.lmbda = 1: all completions are sampled then, so lines need no "
          "completions and there is no validation loss; leave data.validation out, or use a "
          "tune.lmbda below 1 and lines with completions");
    }
  }

  std::unique_ptr<TrainingTask> make_task(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning,
                                          const Reading& reading) const override {
    return std::make_unique<Distill>(job, context, tuning, reading);
  }
};

}  // namespace

const TuningMethod& distill() {
  static const DistillMethod method;
  return method;
}

}  // namespace colossal::tune
