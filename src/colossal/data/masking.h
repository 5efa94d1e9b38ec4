// Masked tokens: the training objective of encoders (J. Devlin et al., "BERT", 2018, 3.1). Some
// tokens of a sequence are hidden, and the model predicts them from all the others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/text/tokenizer/tokenizer.h"

namespace colossal::data {

struct MaskOptions {
  // Probability that a token is chosen to be predicted. Of the chosen tokens, 80 % are replaced by
  // `mask_token`, 10 % by a random token below `vocabulary`, and 10 % stay as they are.
  double probability = 0.15;
  int32_t mask_token = 0;
  int32_t vocabulary = 0;
  std::vector<int32_t> never;  // tokens that are never chosen, such as "[SEP]"; sorted
  uint64_t seed = 0;
};

// Returns the tokenizer's special tokens, for MaskOptions::never.
std::vector<int32_t> tokens_never_masked(const text::Tokenizer& tokenizer);

// Returns the options for a model of the texts that `tokenizer` encodes, except `probability` and
// `seed`. The mask token is the tokenizer's; if it has none, the first row of the model's
// vocabulary that no token of the tokenizer uses. name: of the tokenizer, for messages. vocabulary:
// of the model. Throws ConfigError if there is no mask token.
MaskOptions mask_options(const text::Tokenizer& tokenizer, const std::string& name,
                         int64_t vocabulary);

// Replaces inputs and sets labels: for each chosen token, the label at its own position is the
// token that it was; all other labels are -100. What happens to a token depends only on the seed,
// the row's Batch::sample_ids and the position in the row, so it is the same at every layout, and
// new in each epoch. batch: with the unchanged inputs; its labels are not read.
void mask_tokens(Batch& batch, const MaskOptions& options);

}  // namespace colossal::data
