#include "colossal/training/paired_texts.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <span>

#include "colossal/base/error.h"
#include "colossal/data/score_fields.h"
#include "colossal/data/text_batch.h"

namespace colossal {

using models::TextTower;

PairedTexts::PairedTexts(const TextTower& tower, const text::Tokenizer& tokenizer,
                         const std::string& name, int64_t min_length)
    : tower_(tower),
      tokenizer_(tokenizer),
      min_length_(tower.transformer.causal ? min_length : tower.transformer.positions) {
  const int64_t vocabulary = tower.transformer.vocabulary;
  if (tower.pooled != TextTower::Pooled::end || tower.end_token < vocabulary) return;
  throw ConfigError(
      fmt::format("config.json: text_config.eos_token_id = {}: the vocabulary of texts has {} "
                  "tokens; use the token with which the tokenizer, {}, ends a text, {}",
                  tower.end_token, vocabulary, name, tokenizer.end_of_text()));
}

std::vector<int32_t> PairedTexts::tokens_of(const std::string& text) const {
  const int64_t most = tower_.transformer.positions;
  std::vector<int32_t> tokens = tokenizer_.encode_texts(text, nullptr, most).tokens;
  const auto end = static_cast<int32_t>(tower_.end_token);
  if (tower_.pooled == TextTower::Pooled::end && std::ranges::find(tokens, end) == tokens.end()) {
    tokens.resize(std::min<size_t>(tokens.size(), most - 1));  // the tokenizer adds no end
    tokens.push_back(end);
  }
  return tokens;
}

void PairedTexts::add_to(data::Batch& batch, const std::vector<std::string>& texts) const {
  std::vector<std::vector<int32_t>> rows;
  int64_t length = min_length_;
  for (const std::string& text : texts) {
    rows.push_back(tokens_of(text));
    length = std::max(length, std::ssize(rows.back()));
  }
  const int64_t count = std::ssize(rows);
  const at::Tensor tokens = at::full({count, length}, tower_.pad_token, at::kLong);
  const at::Tensor pooling = at::zeros({count, length}, at::kDouble);
  for (int64_t i = 0; i < count; ++i) {
    const std::span row(tokens[i].mutable_data_ptr<int64_t>(), static_cast<size_t>(length));
    std::ranges::copy(rows[i], row.begin());
    pooling[i][models::pooled_token(tower_, row)] = 1;
  }
  batch.set(data::kTokens, tokens, 1);
  batch.set(data::kPooling, pooling, 1);
}

}  // namespace colossal
