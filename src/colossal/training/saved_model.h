// The files that a run's checkpoints have besides their weights: those of a Hugging Face folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "colossal/checkpoint/file_plan.h"
#include "colossal/job/job.h"
#include "colossal/text/taught_text.h"
#include "colossal/text/tokenizer/tokenizer.h"

namespace colossal {

// Returns which weights the checkpoints of a run have, and the names of their files.
checkpoint::WeightFiles weight_files_of(const Job& job);

// Describes a run's checkpoints, except their tensors and training state. The fields correspond to
// those of checkpoint::Description.
struct SavedModel {
  nlohmann::json config;  // contents of config.json or adapter_config.json
  // The fields of the model or the adapter that must be the same when a run resumes.
  nlohmann::json shaping_fields;
  text::TokenizerFiles files;              // name and content of the other files in the folder
  checkpoint::WeightFiles weight_files{};  // which weights are saved, and the names of their files
};

// Returns the files of a run's checkpoints. tokenizer: the run's tokenizer. taught: what the run
// teaches about the form of texts.
//
// There are three cases:
//   1. The run trains an adapter. The files are adapter_config.json and the tokenizer files of the
//      base model's folder.
//   2. The model comes from the folder model.path, and the tokenizer fits this folder: both have
//      the same tokenizer.json, or the folder has none, and its "eos_token_id" is, or lists, the
//      tokenizer's end-of-text token. The files are config.json, and the folder's
//      generation_config.json and tokenizer files.
//   3. Any other run. The files are config.json and the tokenizer's files.
// In cases 1 and 2, files of the tokenizer that the model's folder lacks are added.
//
// config.json (cases 2 and 3) has the fields of job.model, with the run's compute type as "dtype".
// Its token ids ("*_token_id") are those of the run's section [model] and, in case 2, the other
// ones of the folder. If there is no "eos_token_id", the tokenizer's end-of-text token becomes
// "bos_token_id" and "eos_token_id". If there is no "pad_token_id", it becomes null or, for a
// reward model, the end-of-text token. Throws IoError if a file cannot be read.
//
// In all cases taught.chat_templates replace those of the folder. If the model generates text, the
// files name the tokens that end a text (text::set_end_tokens()), unless the run sets
// model.eos_token_id: taught.end_tokens or, if empty, the tokenizer's end-of-text token. For an
// adapter, generation_config.json is among the files only if the base model's folder does not name
// these tokens.
SavedModel describe_saved_model(const Job& job, const text::Tokenizer& tokenizer,
                                const text::TaughtText& taught = {});

// The same for a model that reads images. The files are config.json or adapter_config.json, and
// `processor`, the contents of preprocessor_config.json.
SavedModel describe_saved_image_model(const Job& job, const std::string& processor);

}  // namespace colossal
