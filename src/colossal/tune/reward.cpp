#include <ATen/ops/zeros.h>

#include <algorithm>

#include "colossal/parallel/collectives.h"
#include "colossal/tune/pairs.h"
#include "colossal/tune/tasks.h"

namespace colossal::tune {
namespace {

// The field that is 1 at the position whose score is its row's reward, [rows, sequence].
constexpr const char* kRewardPosition = "reward_position";

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
    return [this](models::LanguageModel& model, const at::Tensor& x, const data::Batch& batch,
                  const nn::StepContext& step) {
      const at::Tensor rewards = rewards_of(model, x, batch, step);
      const int64_t pairs = rewards.size(0) / 2;
      const at::Tensor chosen = rewards.narrow(0, 0, pairs);
      const at::Tensor rejected = rewards.narrow(0, pairs, pairs);
      const at::Tensor margin = batch.fields.at("margin").values.to(rewards.scalar_type());
      const at::Tensor losses =
          reward_loss(chosen, rejected, margin, config().center_rewards_coefficient);
      return loss_of(losses, {{"accuracy", metric_of(chosen.gt(rejected).to(at::kDouble))},
                              {"margin", metric_of(chosen - rejected)},
                              {"mean_reward", metric_of(rewards)}});
    };
  }

 private:
  // [rows], in fp32 (fp64 for fp64).
  at::Tensor rewards_of(models::LanguageModel& model, const at::Tensor& x, const data::Batch& batch,
                        const nn::StepContext& step) const {
    const at::Tensor scores = model.head_scores(x, step);
    const at::ScalarType wide = scores.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor chosen = batch.fields.at(kRewardPosition).values.to(wide);
    const at::Tensor rewards = (scores.to(wide) * chosen).sum(1);
    if (context().strategy().sp == 1) return rewards;
    return parallel::reduce_from_tensor_parallel(rewards, context().group(Axis::sp));
  }

  std::vector<data::Batch> make_batches(const std::vector<MicroBatch>& drawn) const override {
    std::vector<data::Batch> batches = PairTask::make_batches(drawn);
    for (size_t i = 0; i < batches.size(); ++i) {
      at::Tensor margins = at::zeros({std::ssize(drawn[i])}, at::kDouble);
      for (int64_t j = 0; j < std::ssize(drawn[i]); ++j) margins[j] = drawn[i][j].sample->margin;
      batches[i].fields["margin"] = {margins};
    }
    return batches;
  }

  // The last token that does not fill up, as transformers finds it: with the end-of-text token for
  // both, that before the end.
  void add_fields(data::Batch& batch, const std::vector<const Row*>& rows) const override {
    at::Tensor position = at::zeros(batch.inputs.sizes(), at::kDouble);
    for (int64_t i = 0; i < std::ssize(rows); ++i) {
      const std::vector<int32_t>& tokens = rows[i]->tokens;
      int64_t last = std::ssize(tokens) - 1;
      while (last > 0 && tokens[last] == tokenizer().end_of_text()) --last;
      position[i][std::min(last, position.size(1) - 1)] = 1;
    }
    batch.fields[kRewardPosition] = {.values = position, .sequence_dim = 1};
  }
};

}  // namespace

std::unique_ptr<TrainingTask> make_reward(const Job& job, const ParallelContext& context,
                                          const Tuning& tuning, const Reading& reading) {
  return std::make_unique<RewardModel>(job, context, tuning, reading);
}

}  // namespace colossal::tune
