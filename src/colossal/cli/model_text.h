// Options of the commands that read text for a model (evaluate, convert --calibrate): --data,
// --tokenizer and --sequence-length.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "colossal/data/corpus.h"
#include "colossal/job/run_config.h"
#include "colossal/models/families.h"

namespace colossal::cli {

// Returns the number of tokens of a sequence: `given` (--sequence-length) or, if nullopt, the
// default of the command: the smaller of `most` and the model's number of positions. `most` does
// not limit `given`. Throws ConfigError if `given` exceeds the number of positions.
int64_t resolve_sequence_length(std::optional<int64_t> given, int64_t most,
                                const models::ModelFacts& facts);

// Opens and tokenizes the files of --data. patterns: paths or patterns of paths. tokenizer:
// "bytes", the path of a tokenizer.json, or a folder with a tokenizer.json. config: how files
// become text. threads: number of threads; nullopt: one per core. Throws ConfigError if the
// tokenizer has more tokens than the model's vocabulary.
data::Corpus open_model_text(const std::vector<std::string>& patterns, const std::string& tokenizer,
                             const models::ModelFacts& facts, const DataConfig& config,
                             std::optional<int64_t> threads);

}  // namespace colossal::cli
