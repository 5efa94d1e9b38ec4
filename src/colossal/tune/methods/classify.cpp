#include <ATen/ops/zeros.h>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/units.h"
#include "colossal/data/images/image_source.h"
#include "colossal/data/score_fields.h"
#include "colossal/data/text_batch.h"
#include "colossal/engine/score_loss.h"
#include "colossal/tune/methods/image_classification.h"
#include "colossal/tune/methods/methods.h"
#include "colossal/tune/methods/sample_task.h"
#include "colossal/tune/methods/score_head.h"

namespace colossal::tune {
namespace {

class Classification final : public SampleTask {
 public:
  Classification(const Job& job, const ParallelContext& context, const Tuning& tuning,
                 const Reading& reading)
      : SampleTask(job, context, tuning, SampleKind::labeled, reading),
        problem_(labels_of(job.model).problem) {}

  std::vector<std::string> metrics() const override { return {score_metric(problem_)}; }
  std::vector<std::string> shown_metrics() const override { return metrics(); }
  HeadLoss loss_to_record() const override { return {}; }
  HeadLoss loss() const override { return score_loss(problem_, context()); }

 private:
  std::vector<data::Batch> make_batches(const std::vector<MicroBatch>& drawn) const override {
    std::vector<data::Batch> batches;
    for (const MicroBatch& micro_batch : drawn) {
      auto [rows, ids] = rows_of(micro_batch);
      data::Batch batch = collate_texts(rows, std::move(ids), tokenizer().end_of_text(),
                                        job().strategy.sp, job().model.transformer);
      const auto width =
          problem_ == Problem::single_label ? int64_t{1} : job().model.transformer.scores;
      const at::Tensor targets = at::zeros({std::ssize(rows), width}, at::kDouble);
      auto values = targets.accessor<double, 2>();
      for (int64_t row = 0; row < std::ssize(rows); ++row) {
        for (int64_t i = 0; i < width; ++i) values[row][i] = micro_batch[row].sample->targets[i];
      }
      batch.set(data::kTargets, targets);
      batches.push_back(std::move(batch));
    }
    return batches;
  }

  Problem problem_;
};

// Sets the labels of a model that reads images: its own if those of data.train are among them.
void resolve_image_labels(const models::ModelSpecification& model, RunConfig& run) {
  const auto source = data::open_image_source(run.data.train);
  const std::vector<std::string>& classes = source->classes();
  if (classes.size() < 2) {
    throw ConfigError(fmt::format(
        "data.train: the images have {}, so there is nothing to tell apart; give each class a "
        "folder, or each line a \"label\"",
        classes.empty() ? "no labels" : fmt::format("one label (\"{}\")", classes.front())));
  }
  if (model.facts.scores > 0 && !run.model.path.empty()) {
    const std::vector<std::string> own = labels_of(model).names;
    const auto is_own = [&](const std::string& name) {
      return std::ranges::find(own, name) != own.end();
    };
    if (std::ranges::all_of(classes, is_own)) {
      run.model.labels = own;
      return;
    }
    log::info(
        "the model's {} labels do not include all of data.train's: it gets a new head for these {}",
        format_count(std::ssize(own)), format_count(std::ssize(classes)));
    run.model.replace_labels = true;
  }
  run.model.labels = classes;
  run.model.problem_type = problem_name(Problem::single_label);
}

// Sets the labels of the model: its own if it gives labels, else those of the lines in data.train.
void resolve_labels(const TuneConfig& config, const models::ModelSpecification& model,
                    RunConfig& run) {
  const std::optional<Problem> asked = config.problem_type;
  if (model.facts.scores > 0) {
    const Labels own = labels_of(model);
    if (asked && *asked != own.problem) {
      throw ConfigError(fmt::format(
          "tune.problem_type = \"{}\": the model in {} has problem_type \"{}\"; leave the key out",
          problem_name(*asked), run.model.path, problem_name(own.problem)));
    }
    run.model.labels = own.names;
    return;
  }
  const Labels found = find_labels(run.data.train, "data.train", config.label_field, asked,
                                   run.data.invalid, run.data.format);
  if (found.names.size() < 2 && found.problem == Problem::single_label) {
    throw ConfigError(fmt::format(
        "data.train: all lines have the same label ({}), so there is nothing to tell apart",
        fmt::join(found.names, "")));
  }
  run.model.labels = found.names;
  run.model.problem_type = problem_name(found.problem);
}

class ClassifyMethod final : public TuningMethod {
 public:
  std::string name() const override { return "classify"; }
  std::string description() const override {
    return "Train a model that gives texts, or pairs of texts, labels: classes, tags or numbers";
  }

  bool takes_encoders() const override { return true; }

  void set_defaults(RunConfig& run, TuneConfig&) const override {
    run.optimizer.learning_rate = 5e-5;
  }

  void describe(ConfigSchema& schema, TuneConfig& config) const override {
    schema.add("data.pair_field", &config.pair_field,
               "The field of the second text, in lines that have one: the model then labels the "
               "pair.");
    schema.add("data.label_field", &config.label_field,
               "The field of the label: a text or a whole number (a class), a list of texts "
               "(several labels), or a number with a decimal point (regression).");
    schema.add("tune.problem_type", &config.problem_type,
               "What the labels mean. single_label_classification: one of several classes. "
               "multi_label_classification: any number of labels. regression: numbers.",
               {.unset = "that of the model if it gives labels, else as the labels look"});
  }

  void resolve(const models::ModelSpecification& model, const TuneConfig& config,
               RunConfig& run) const override {
    if (model.transformer.patches) {
      resolve_image_labels(model, run);
    } else {
      resolve_labels(config, model, run);
    }
  }

  std::unique_ptr<TrainingTask> make_task(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning,
                                          const Reading& reading) const override {
    if (job.model.transformer.patches) return make_image_classification(job, context);
    return std::make_unique<Classification>(job, context, tuning, reading);
  }
};

}  // namespace

const TuningMethod& classify() {
  static const ClassifyMethod method;
  return method;
}

}  // namespace colossal::tune
