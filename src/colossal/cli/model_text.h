// The text that a model reads at the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "colossal/booster/run_config.h"
#include "colossal/data/corpus.h"
#include "colossal/models/families.h"

namespace colossal::cli {

// --sequence-length: as given, else the model's positions, at most `most`. Throws ConfigError for
// more than the model has.
int64_t resolve_sequence_length(std::optional<int64_t> given, int64_t most,
                                const models::ModelFacts& facts);

// --data: the files that these patterns match, in the tokens of `tokenizer` ("bytes", a
// tokenizer.json or a folder with one). Throws ConfigError for one with more tokens than the model.
data::Corpus open_model_text(const std::vector<std::string>& patterns, const std::string& tokenizer,
                             const models::ModelFacts& facts, const DataConfig& config,
                             std::optional<int64_t> threads);

}  // namespace colossal::cli
