#include "colossal/data/text_batch.h"
#include "colossal/ops/loss/linear_cross_entropy.h"
#include "colossal/tune/methods/methods.h"
#include "colossal/tune/methods/sample_task.h"

namespace colossal::tune {
namespace {

LossSum dft(models::Model& model, const nn::BlockState& state, const data::Batch& batch,
            const nn::StepContext& step) {
  const at::Tensor found =
      model.token_head().log_probabilities(state.output(), batch.at(data::kLabels), 1, step);
  return {.sum = -(found * found.detach().exp()).sum(),
          .count = batch.at(data::kLabels).ne(ops::kIgnoredLabel).sum()};
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

class SftMethod final : public TuningMethod {
 public:
  std::string name() const override { return "sft"; }
  std::string description() const override {
    return "Supervised fine-tuning on texts, or on prompts with completions";
  }

  std::vector<std::string> loss_types() const override { return {"nll", "dft"}; }
  bool takes_encoder_decoders() const override { return true; }

  void set_defaults(RunConfig& run, TuneConfig& config) const override {
    run.optimizer.learning_rate = 2e-5;
    config.loss_type = {"nll"};
  }

  void describe(ConfigSchema& schema, TuneConfig& config) const override {
    schema.add("tune.assistant_only_loss", &config.assistant_only_loss,
               "For conversations. true: compute the loss only on what the assistant says, as the "
               "template marks it with {% generation %}.");
    schema.add("data.packing", &config.packing,
               "Put several samples into a row to reduce padding. bfd: the end of a sample that is "
               "longer than a row is dropped. bfd_split: such a sample is split. With both, "
               "attention stays within a sample. wrapped: samples are cut at the ends of rows, and "
               "attention crosses samples.",
               {.unset = "none"});
    schema.add("tune.completion_only_loss", &config.completion_only_loss,
               "For samples with a prompt and a completion. true: compute the loss only on the "
               "completion. false: also on the prompt.");
  }

  std::unique_ptr<TrainingTask> make_task(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning,
                                          const Reading& reading) const override {
    return std::make_unique<Sft>(job, context, tuning, reading);
  }
};

}  // namespace

const TuningMethod& sft() {
  static const SftMethod method;
  return method;
}

}  // namespace colossal::tune
