// The files of a Hugging Face folder besides the weights. Finds the tokenizer that a run reads from
// the folder model.path, and makes the files that the run's checkpoints have besides their weights.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "colossal/booster/job.h"
#include "colossal/checkpoint/file_plan.h"
#include "colossal/text/tokenizer.h"

namespace colossal {

// Returns the tokenizer of a run, in a form that text::make_tokenizer() accepts: data.tokenizer if
// the key is set and not "model"; otherwise the folder model.path if it has a tokenizer.json;
// otherwise "bytes". Throws ConfigError if the key is "model" and the model has no tokenizer.json,
// or if the key is unset and model.path has only tokenizer files that are not supported.
std::string resolve_tokenizer(const RunConfig& config);

// Returns a line for the log: the tokenizer's name, number of tokens, and the token that ends a
// text.
std::string describe_tokenizer(const Job& job, const text::Tokenizer& tokenizer);

// What a run's checkpoints have besides tensors and training state. The fields correspond to those
// of checkpoint::Description.
struct SavedModel {
  nlohmann::json config;  // contents of config.json or adapter_config.json
  // The fields of the model or the adapter that must be the same when a run resumes.
  nlohmann::json shaping_fields;
  text::TokenizerFiles files;              // name and content of the other files in the folder
  checkpoint::WeightFiles weight_files{};  // names of the files with weights
};

// Returns the files of a run's checkpoints. If the model comes from the folder model.path and the
// run uses the folder's tokenizer, the checkpoints have the folder's token ids (every "*_token_id"
// of config.json), generation_config.json and tokenizer files. Otherwise the token ids and
// tokenizer files are those of the run's tokenizer. For a run that trains an adapter, the files are
// those of a peft folder, which does not contain the model. Throws IoError if a file cannot be
// read.
SavedModel describe_saved_model(const Job& job, const text::Tokenizer& tokenizer);

}  // namespace colossal
