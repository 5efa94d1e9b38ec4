// The files of a model's folder besides its tensors: the tokenizer that a run reads from the folder
// of model.path, and the files that a checkpoint copies from it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "colossal/booster/job.h"
#include "colossal/checkpoint/file_plan.h"
#include "colossal/text/tokenizer.h"

namespace colossal {

// Returns the resolved data.tokenizer, as text::make_tokenizer accepts it. Throws ConfigError if
// the key is "model" and the model has no tokenizer, or if the key is unset and the model's
// tokenizer has a format that is not supported.
std::string resolve_tokenizer(const RunConfig& config);

// Describes the tokenizer for people: name, size, and the token that ends a text.
std::string describe_tokenizer(const Job& job, const text::Tokenizer& tokenizer);

struct SavedModel {
  nlohmann::json config;          // config.json or adapter_config.json
  nlohmann::json shaping_fields;  // fields that must be the same in a run that resumes
  text::TokenizerFiles files;     // name and content of the other files in the folder
  checkpoint::WeightFiles weight_files{};
};

// Describes the checkpoint of a run. For a model from model.path, the token ids (every "*_token_id"
// of config.json), generation_config.json and the tokenizer files are kept. If the run has another
// tokenizer, or the model has no path, these are made from the run's tokenizer. A run that trains
// an adapter saves an adapter folder in the format of peft, without the model. Throws IoError if a
// file cannot be read.
SavedModel describe_saved_model(const Job& job, const text::Tokenizer& tokenizer);

}  // namespace colossal
