#include "colossal/data/text_batch.h"
#include "colossal/ops/loss/linear_cross_entropy.h"
#include "colossal/tune/methods/tasks.h"

namespace colossal::tune {
namespace {

LossSum dft(models::Model& model, const nn::BlockState& state, const data::Batch& batch,
            const nn::StepContext& step) {
  const at::Tensor found =
      model.token_head().log_probabilities(state.output(), batch.at(data::kLabels), 1, step);
  return {.sum = -(found * found.detach().exp()).sum(),
          .count = batch.at(data::kLabels).ne(ops::kIgnoredLabel).sum().item<int64_t>()};
}

class Sft final : public SampleTask {
 public:
  Sft(const Job& job, const ParallelContext& context, const Tuning& tuning, const Reading& reading)
      : SampleTask(job, context, tuning, SampleKind::language_modeling, reading) {}

  HeadLoss loss() const override {
    return config().loss_type.front() == "dft" ? HeadLoss(dft) : HeadLoss(cross_entropy);
  }
  HeadLoss loss_to_record() const override {
    return config().loss_type.front() == "dft" ? SampleTask::loss_to_record() : HeadLoss();
  }

 private:
  std::vector<data::Batch> make_batches(const std::vector<MicroBatch>& drawn) const override {
    return collate_samples(drawn);
  }
};

}  // namespace

std::unique_ptr<TrainingTask> make_sft(const Job& job, const ParallelContext& context,
                                       const Tuning& tuning, const Reading& reading) {
  return std::make_unique<Sft>(job, context, tuning, reading);
}

}  // namespace colossal::tune
