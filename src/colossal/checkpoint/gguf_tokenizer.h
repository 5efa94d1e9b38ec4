// Converts tokenizers between GGUF files and tokenizer.json. Two kinds are converted: byte-level
// BPE ("gpt2" in GGUF), and SentencePiece's BPE with byte fallback ("llama" in GGUF).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "colossal/checkpoint/gguf_family.h"
#include "colossal/io/gguf.h"

namespace colossal::checkpoint {

// Returns the GGUF fields of a folder's tokenizer, but for its end token and chat template
// (gguf_generation.h). If the folder has no tokenizer.json, returns
// only the field tokenizer.ggml.model, with the value "none". vocabulary: number of tokens of the
// model; the list of tokens is padded to it. Throws ConfigError if the tokenizer is of another kind
// than these two, has an unsupported pre-tokenizer, or has a token with a number of `vocabulary` or
// more. Throws IoError if a file is invalid.
GgufFields tokenizer_fields(const std::filesystem::path& folder, int64_t vocabulary);

// Returns tokenizer.json and tokenizer_config.json, file name to content, for the tokenizer in a
// GGUF file. Empty if the file has no tokenizer. Throws ConfigError if the tokenizer is of another
// kind than these two or has an unsupported pre-tokenizer, and IoError if the file's fields are
// invalid.
std::map<std::string, std::string> tokenizer_files(const io::GgufReader& file);

}  // namespace colossal::checkpoint
