#include <ATen/ops/zeros.h>

#include "colossal/data/score_fields.h"
#include "colossal/data/text_batch.h"
#include "colossal/engine/score_loss.h"
#include "colossal/tune/methods/score_head.h"
#include "colossal/tune/methods/tasks.h"

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
  HeadLoss loss_to_record() const override { return loss(); }
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

}  // namespace

std::unique_ptr<TrainingTask> make_classify(const Job& job, const ParallelContext& context,
                                            const Tuning& tuning, const Reading& reading) {
  return std::make_unique<Classification>(job, context, tuning, reading);
}

}  // namespace colossal::tune
