// A model's folder beside its tensors: which tokenizer a run takes from the folder of model.path,
// and what of it a checkpoint carries on.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "colossal/booster/job.h"
#include "colossal/checkpoint/file_plan.h"
#include "colossal/text/tokenizer.h"

namespace colossal {

// Returns what data.tokenizer asks for, as text::make_tokenizer takes it. Throws ConfigError if it
// is "model" and the model has none, or if it was left out and the model's own is of a kind that is
// not read.
std::string resolve_tokenizer(const RunConfig& config);

// Describes the tokenizer for people: what it is, its size, and the token that ends a text.
std::string describe_tokenizer(const Job& job, const text::Tokenizer& tokenizer);

struct SavedModel {
  nlohmann::json config;          // config.json, or adapter_config.json
  nlohmann::json shaping_fields;  // the fields that a run which goes on must have too
  text::TokenizerFiles files;     // name and content of what lies beside it
  checkpoint::WeightFiles weight_files{};
};

// A model from model.path keeps its token numbers (every "*_token_id" of its config.json),
// generation_config.json and tokenizer files as they are. If it has none, or if the run has another
// tokenizer, they are made from the run's tokenizer. A run that trains an adapter saves the
// adapter's folder, as peft has it, and leaves the model where it is. Throws IoError for a file
// that cannot be read.
SavedModel describe_saved_model(const Job& job, const text::Tokenizer& tokenizer);

}  // namespace colossal
