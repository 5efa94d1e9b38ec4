// Tokenizers in GGUF files and in tokenizer.json: byte-level BPE ("gpt2") and SentencePiece's BPE
// with byte fallback ("llama").
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "colossal/checkpoint/gguf_family.h"
#include "colossal/io/gguf.h"

namespace colossal::checkpoint {

// Returns the fields of a folder's tokenizer, with as many tokens as the model has; without a
// tokenizer.json, the fields that say that there is none. Throws ConfigError for another kind,
// IoError for a bad file.
GgufFields tokenizer_fields(const std::filesystem::path& folder, int64_t vocabulary);

// Returns names and contents of a folder's files for the tokenizer in a GGUF file; empty if it has
// none. Throws ConfigError for a kind that is not converted.
std::map<std::string, std::string> tokenizer_files(const io::GgufReader& file);

}  // namespace colossal::checkpoint
