// Tokenizers in GGUF files and in tokenizer.json: byte-level BPE ("gpt2") and SentencePiece's BPE
// with bytes to fall back on ("llama").
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "colossal/checkpoint/gguf_family.h"
#include "colossal/io/gguf.h"

namespace colossal::checkpoint {

// The tokenizer of a folder, with as many tokens as the model has; that there is none, where it has
// no tokenizer.json. Throws ConfigError for a kind that is neither, IoError for a bad file.
GgufFields tokenizer_fields(const std::filesystem::path& folder, int64_t vocabulary);

// Names and contents of a folder's files for the tokenizer in the file; none where it has none.
// Throws ConfigError for a kind that is not converted.
std::map<std::string, std::string> tokenizer_files(const io::GgufReader& file);

}  // namespace colossal::checkpoint
