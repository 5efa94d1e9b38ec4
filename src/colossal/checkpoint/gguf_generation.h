// Converts what a model was taught about generating text between GGUF files and Hugging Face
// folders: chat templates, end tokens and settings of generation.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "colossal/checkpoint/gguf_family.h"
#include "colossal/io/gguf.h"
#include "colossal/text/model_folder.h"

namespace colossal::checkpoint {

// Returns the GGUF fields of a folder's chat templates, end tokens and generation_config.json. The
// names are those that llama.cpp reads: tokenizer.chat_template, tokenizer.ggml.eos_token_id,
// eot_token_id, eom_token_id, general.sampling.*. What it has no names for is kept in
// tokenizer.ggml.eos_token_ids (all end tokens) and colossal.generation_config (the file's text),
// and the log says so. Empty if the folder has no tokenizer.json. Throws as text::ModelFolder.
// names_end: whether the fields of the tokenizer name eos_token_id, the token that it adds after
// each text.
GgufFields generation_fields(const text::ModelFolder& folder, bool names_end);

// Returns "eos_token_id" of config.json for the end tokens of a GGUF file: a number, a list, or
// null. Throws IoError if the fields are invalid.
nlohmann::json end_tokens_of(const io::GgufReader& file);

// Returns the chat templates and generation_config.json of a GGUF file, file name to content.
// Throws IoError if the fields are invalid.
std::map<std::string, std::string> generation_files(const io::GgufReader& file);

}  // namespace colossal::checkpoint
