#include <ATen/ops/zeros.h>

#include "colossal/tune/methods/losses.h"
#include "colossal/tune/methods/score_head.h"
#include "colossal/tune/methods/tasks.h"
#include "colossal/tune/samples/pairs.h"

namespace colossal::tune {
namespace {

constexpr const char* kTargets = "targets";  // [rows, 1 or labels]

class Classification final : public SampleTask {
 public:
  Classification(const Job& job, const ParallelContext& context, const Tuning& tuning,
                 const Reading& reading)
      : SampleTask(job, context, tuning, SampleKind::labeled, reading),
        problem_(labels_of(job.model).problem) {}

  std::vector<std::string> metrics() const override { return {metric()}; }
  std::vector<std::string> shown_metrics() const override { return {metric()}; }
  HeadLoss loss_to_record() const override {
    return [](models::LanguageModel& model, const at::Tensor& x, const data::Batch& batch,
              const nn::StepContext& step) {
      return LossSum{.sum = model.head_scores(x, step).sum(), .count = batch.labels.numel()};
    };
  }

  HeadLoss loss() const override {
    return [this](models::LanguageModel& model, const at::Tensor& x, const data::Batch& batch,
                  const nn::StepContext& step) {
      const at::Tensor scores = scores_of_rows(model, x, batch, step, context());
      const at::Tensor& targets = batch.fields.at(kTargets).values;
      return LossSum{.sum = label_loss(problem_, scores, targets).sum(),
                     .count = scores.size(0),
                     .copies = context().strategy().sp,
                     .metrics = {{metric(), metric_of(label_accuracy(problem_, scores, targets))}}};
    };
  }

 private:
  const char* metric() const {
    return problem_ == Problem::regression ? "absolute_error" : "accuracy";
  }

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
      batch.fields[kTargets] = {targets};
      batches.push_back(std::move(batch));
    }
    return batches;
  }

  Problem problem_;
};

}  // namespace

std::unique_ptr<TrainingTask> make_classify(const Job& job, const ParallelContext& context,
                                            const Tuning& tuning, const Reading& reading) {
  return std::make_unique<Classification>(job, context, tuning, reading);
}

}  // namespace colossal::tune
