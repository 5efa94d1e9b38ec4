#include <ATen/ops/zeros.h>

#include "colossal/tune/methods/methods.h"
#include "colossal/tune/methods/score_head.h"
#include "colossal/tune/samples/pairs.h"

namespace colossal::tune {
namespace {

class RewardModel final : public PairTask {
 public:
  RewardModel(const Job& job, const ParallelContext& context, const Tuning& tuning,
              const Reading& reading)
      : PairTask(job, context, tuning, reading) {}

  std::vector<std::string> metrics() const override {
    return {"accuracy", "margin", "mean_reward"};
  }
  std::vector<std::string> shown_metrics() const override { return {"accuracy", "margin"}; }
  HeadLoss loss_to_record() const override { return {}; }

  HeadLoss loss() const override {
    return [this](models::Model& model, const nn::BlockState& state, const data::Batch& batch,
                  const nn::StepContext& step) {
      const at::Tensor rewards = rewards_of_rows(model, state, batch, step, context());
      const int64_t pairs = rewards.size(0) / 2;
      const at::Tensor chosen = rewards.narrow(0, 0, pairs);
      const at::Tensor rejected = rewards.narrow(0, pairs, pairs);
      const at::Tensor margin = batch.at("margin").to(rewards.scalar_type());
      const at::Tensor losses =
          reward_loss(chosen, rejected, margin, config().center_rewards_coefficient);
      return loss_of(losses, {{"accuracy", metric_of(chosen.gt(rejected).to(at::kDouble))},
                              {"margin", metric_of(chosen - rejected)},
                              {"mean_reward", metric_of(rewards)}});
    };
  }

 private:
  std::vector<data::Batch> make_batches(const std::vector<MicroBatch>& drawn) const override {
    std::vector<data::Batch> batches;
    for (const MicroBatch& micro_batch : drawn) batches.push_back(make_batch(micro_batch));
    return batches;
  }

  data::Batch make_batch(const MicroBatch& micro_batch) const {
    std::vector<Sample> ended;
    for (const Drawn& each : micro_batch) {
      ended.push_back(*each.sample);
      for (Row& row : ended.back().rows) row = with_final_padding(row, tokenizer().end_of_text());
    }
    MicroBatch drawn = micro_batch;
    at::Tensor margins = at::zeros({std::ssize(ended)}, at::kDouble);
    for (int64_t i = 0; i < std::ssize(ended); ++i) {
      drawn[i].sample = &ended[i];
      margins[i] = ended[i].margin;
    }
    data::Batch batch = std::move(PairTask::make_batches({drawn}).front());
    batch.set("margin", margins);
    return batch;
  }

  void add_fields(data::Batch& batch, const std::vector<const Row*>& rows) const override {
    add_reward_positions(rows, tokenizer().end_of_text(), batch);
  }
};

class RewardMethod final : public TuningMethod {
 public:
  std::string name() const override { return "reward"; }
  std::string description() const override {
    return "Train a reward model, which gives each text a number, higher for the better of two";
  }

  bool has_pairs() const override { return true; }

  void set_defaults(RunConfig& run, TuneConfig&) const override {
    run.optimizer.learning_rate = 1e-4;
    run.train.dropout = 0;
    run.model.labels = models::numbered_labels(1);
  }

  void describe(ConfigSchema& schema, TuneConfig& config) const override {
    schema.add("tune.center_rewards_coefficient", &config.center_rewards_coefficient,
               "The weight of a term that keeps the mean reward of a pair near 0.", {.minimum = 0});
  }

  std::unique_ptr<TrainingTask> make_task(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning,
                                          const Reading& reading) const override {
    return std::make_unique<RewardModel>(job, context, tuning, reading);
  }
};

}  // namespace

const TuningMethod& reward() {
  static const RewardMethod method;
  return method;
}

}  // namespace colossal::tune
