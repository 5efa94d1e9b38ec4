// Text for a model, given on the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "colossal/booster/run_config.h"
#include "colossal/data/corpus.h"
#include "colossal/models/families.h"

namespace colossal::cli {

// Resolves --sequence-length: returns `given` or, if there is none, the smaller of `most` and the
// model's number of positions. Throws ConfigError if `given` is more than the positions.
int64_t resolve_sequence_length(std::optional<int64_t> given, int64_t most,
                                const models::ModelFacts& facts);

// Opens --data: the files that match the patterns, tokenized. tokenizer: "bytes", a tokenizer.json,
// or a folder with one. Throws ConfigError if the tokenizer has more tokens than the model's
// vocabulary.
data::Corpus open_model_text(const std::vector<std::string>& patterns, const std::string& tokenizer,
                             const models::ModelFacts& facts, const DataConfig& config,
                             std::optional<int64_t> threads);

}  // namespace colossal::cli
