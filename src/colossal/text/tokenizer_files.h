// The files of a tokenizer in a Hugging Face model folder.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace colossal::text {

inline constexpr const char* kTokenizerFile = "tokenizer.json";
inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr const char* kSpecialTokensFile = "special_tokens_map.json";

using TokenizerFiles = std::vector<std::pair<std::string, std::string>>;  // name and content

// Reads tokenizer_json (stored under the name "tokenizer.json") and all other tokenizer files in
// its folder: what a checkpoint stores of the tokenizer. Throws IoError naming a file that cannot
// be read.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& tokenizer_json);

// Returns the content of the file; null if there is no file of this name.
const std::string* find_file(const TokenizerFiles& files, const std::string& name);

// Returns the names of the tokenizer files in a folder, including those of tokenizers that Colossal
// cannot read.
std::vector<std::string> list_tokenizer_files(const std::filesystem::path& folder);

}  // namespace colossal::text
