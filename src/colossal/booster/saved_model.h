// The files of a model's folder besides its weights: the tokenizer that a run reads from the folder
// model.path, and the files that a checkpoint has besides its weights.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "colossal/booster/job.h"
#include "colossal/checkpoint/file_plan.h"
#include "colossal/text/tokenizer.h"

namespace colossal {

// Returns data.tokenizer, or, if it is unset or "model", the model's own tokenizer, as
// text::make_tokenizer accepts it. If it is unset and the model has no tokenizer, returns "bytes".
// Throws ConfigError if the key is "model" and the model has no tokenizer, or if the model's
// tokenizer has a format that is not supported.
std::string resolve_tokenizer(const RunConfig& config);

// Describes the tokenizer for people: name, size, and the token that ends a text.
std::string describe_tokenizer(const Job& job, const text::Tokenizer& tokenizer);

// What a run's checkpoint has besides tensors and training state.
struct SavedModel {
  nlohmann::json config;          // config.json or adapter_config.json
  nlohmann::json shaping_fields;  // checkpoint::Description::model_fields
  text::TokenizerFiles files;     // name and content of the other files in the folder
  checkpoint::WeightFiles weight_files{};
};

// Returns the files of a run's checkpoints. For a model from model.path, they have the folder's
// token ids (every "*_token_id" of config.json), generation_config.json and tokenizer files. If the
// run has another tokenizer, or the model has no path, they are made from the run's tokenizer. A
// run that trains an adapter saves an adapter folder in the format of peft, without the model.
// Throws IoError if a file cannot be read.
SavedModel describe_saved_model(const Job& job, const text::Tokenizer& tokenizer);

}  // namespace colossal
