// Converts tokenizers between GGUF files and tokenizer.json: byte-level BPE ("gpt2"), and
// SentencePiece's BPE with byte fallback ("llama").
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "colossal/checkpoint/gguf_family.h"
#include "colossal/io/gguf.h"

namespace colossal::checkpoint {

// Returns the GGUF fields of a folder's tokenizer. vocabulary: size of the model's vocabulary, to
// which the list of tokens is padded. If there is no tokenizer.json, returns the fields for "no
// tokenizer". Throws ConfigError for a kind of tokenizer that cannot be converted, IoError for an
// invalid file.
GgufFields tokenizer_fields(const std::filesystem::path& folder, int64_t vocabulary);

// Returns the tokenizer files of a Hugging Face folder, name to content, for the tokenizer in a
// GGUF file; empty if the file has no tokenizer. Throws ConfigError for a kind of tokenizer that
// cannot be converted.
std::map<std::string, std::string> tokenizer_files(const io::GgufReader& file);

}  // namespace colossal::checkpoint
