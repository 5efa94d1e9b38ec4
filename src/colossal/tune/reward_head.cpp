#include "colossal/tune/reward_head.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "colossal/parallel/collectives.h"

namespace colossal::tune {
namespace {

constexpr const char* kRewardPosition = "reward_position";  // [rows, sequence]

}  // namespace

Row with_final_padding(Row row, int32_t padding) {
  if (!row.tokens.empty() && row.tokens.back() == padding) return row;
  row.tokens.push_back(padding);
  row.learned.push_back(0);
  return row;
}

void add_reward_positions(const std::vector<const Row*>& rows, int32_t padding,
                          data::Batch& batch) {
  at::Tensor position = at::zeros(batch.inputs.sizes(), at::kDouble);
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    const std::vector<int32_t>& tokens = rows[i]->tokens;
    int64_t last = std::ssize(tokens) - 1;
    while (last > 0 && tokens[last] == padding) --last;
    position[i][std::min(last, position.size(1) - 1)] = 1;
  }
  batch.fields[kRewardPosition] = {.values = position, .sequence_dim = 1};
}

at::Tensor rewards_of_rows(models::LanguageModel& model, const at::Tensor& x,
                           const data::Batch& batch, const nn::StepContext& step,
                           const ParallelContext& context) {
  const at::Tensor scores = model.head_scores(x, step);
  const at::ScalarType wide = scores.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor chosen = batch.fields.at(kRewardPosition).values.to(wide);
  const at::Tensor rewards = (scores.to(wide) * chosen).sum(1);
  if (context.strategy().sp == 1) return rewards;
  return parallel::reduce_from_tensor_parallel(rewards, context.group(Axis::sp));
}

}  // namespace colossal::tune
