// Makes the inputs of a tower for texts (models/text_tower.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/models/text_tower.h"
#include "colossal/text/tokenizer/tokenizer.h"

namespace colossal {

class PairedTexts {
 public:
  // min_length: fewest positions of a row. Throws ConfigError, which names the tokenizer as `name`,
  // if the vocabulary lacks the token for the end of a text. `tower` and `tokenizer` must outlive
  // this.
  PairedTexts(const models::TextTower& tower, const text::Tokenizer& tokenizer,
              const std::string& name, int64_t min_length);

  // Adds these texts, one for each row, to a batch: data::kTokens and data::kPooling. A text that
  // is too long is cut at its end, but keeps the token for the end.
  void add_to(data::Batch& batch, const std::vector<std::string>& texts) const;

 private:
  // Returns the tokens of a text, without padding.
  std::vector<int32_t> tokens_of(const std::string& text) const;

  const models::TextTower& tower_;
  const text::Tokenizer& tokenizer_;
  int64_t min_length_;
};

}  // namespace colossal
