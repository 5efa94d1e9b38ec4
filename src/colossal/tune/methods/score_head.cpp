#include "colossal/tune/methods/score_head.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "colossal/data/score_fields.h"
#include "colossal/data/text_batch.h"
#include "colossal/engine/score_loss.h"
#include "colossal/ops/loss/linear_cross_entropy.h"

namespace colossal::tune {
Row with_final_padding(Row row, int32_t padding) {
  if (!row.tokens.empty() && row.tokens.back() == padding) return row;
  row.tokens.push_back(padding);
  row.learned.push_back(0);
  return row;
}

void add_reward_positions(const std::vector<const Row*>& rows, int32_t padding,
                          data::Batch& batch) {
  at::Tensor position = at::zeros(batch.at(data::kTokens).sizes(), at::kDouble);
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    const std::vector<int32_t>& tokens = rows[i]->tokens;
    int64_t last = std::ssize(tokens) - 1;
    while (last > 0 && tokens[last] == padding) --last;
    position[i][std::min(last, position.size(1) - 1)] = 1;
  }
  batch.set(data::kPooling, position, 1);
}

data::Batch collate_texts(const std::vector<const Row*>& rows, std::vector<int64_t> sample_ids,
                          int32_t padding, int64_t min_length,
                          const models::TransformerConfig& model) {
  int64_t length = std::max<int64_t>(1, min_length);
  for (const Row* row : rows) length = std::max(length, std::ssize(row->tokens));
  const std::vector<int64_t> shape{std::ssize(rows), length};
  data::Batch batch =
      data::text_batch(at::full(shape, padding, at::kLong),
                       at::full(shape, ops::kIgnoredLabel, at::kLong), std::move(sample_ids));
  const at::Tensor position = at::zeros(shape, at::kDouble);
  const at::Tensor types = at::zeros(shape, at::kLong), apart = at::zeros(shape, at::kLong);
  auto inputs = batch.at(data::kTokens).accessor<int64_t, 2>();
  auto type_of = types.accessor<int64_t, 2>();
  for (int64_t i = 0; i < std::ssize(rows); ++i) {
    const auto size = std::ssize(rows[i]->tokens);
    for (int64_t k = 0; k < size; ++k) {
      inputs[i][k] = rows[i]->tokens[k];
      if (!rows[i]->types.empty()) type_of[i][k] = rows[i]->types[k];
    }
    apart[i].narrow(0, size, length - size).fill_(1);
    batch.units -= length - size;
    const bool first = model.scored_position == models::TransformerConfig::ScoredPosition::first;
    position[i][first ? 0 : std::max<int64_t>(0, size - 1)] = 1;
  }
  batch.set(data::kPooling, position, 1);
  if (model.token_types > 1) {
    batch.set(data::kTokenTypes, types.clamp_max(model.token_types - 1), 1);
  }
  const bool is_padded = batch.units < std::ssize(rows) * length;
  if (!model.causal && is_padded) batch.set(data::kDocuments, apart);
  return batch;
}

at::Tensor rewards_of_rows(models::Model& model, const nn::BlockState& state,
                           const data::Batch& batch, const nn::StepContext& step,
                           const ParallelContext& context) {
  return scores_of_rows(model, state, batch, step, context).squeeze(-1);
}

}  // namespace colossal::tune
