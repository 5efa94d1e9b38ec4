#include "colossal/models/text_tower.h"

#include <algorithm>

#include "colossal/models/attention_pooling.h"

namespace colossal::models {

int64_t pooled_token(const TextTower& texts, std::span<const int64_t> row) {
  const int64_t last = std::ssize(row) - 1;
  switch (texts.pooled) {
    case TextTower::Pooled::end:
      return std::min(last,
                      static_cast<int64_t>(std::ranges::find(row, texts.end_token) - row.begin()));
    case TextTower::Pooled::highest:
      return std::ranges::max_element(row) - row.begin();
    case TextTower::Pooled::last:
      break;
  }
  return last;
}

ModelFacts facts(const TransformerConfig& images, const TextTower& texts) {
  const TransformerConfig& text = texts.transformer;
  ModelFacts of_texts = facts(text);
  const int64_t table =
      text.vocabulary * text.hidden;  // of the head for tokens, of a language model
  of_texts.product_weights -= table;
  const int64_t of_images = images.attention_pooling ? attention_pooling_parameters(images)
                                                     : texts.features * images.hidden;
  const int64_t projection = texts.features * (text.hidden + (texts.projection_bias ? 1 : 0));
  ModelFacts both = facts(images);
  both.layers += of_texts.layers;
  both.text_layers = of_texts.layers;
  both.heads = std::min(both.heads, of_texts.heads);
  both.kv_heads = std::min(both.kv_heads, of_texts.kv_heads);
  both.vocabulary = of_texts.vocabulary;
  both.parameters += of_texts.parameters - table + of_images + projection;
  both.parameters += texts.logit_bias ? 2 : 1;
  both.flops_of_text =
      of_texts.flops_per_token(text.positions) * static_cast<double>(text.positions);
  return both;
}

}  // namespace colossal::models
