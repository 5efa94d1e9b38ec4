// The files of a tokenizer as a Hugging Face folder has them.
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

// tokenizer_json, under the name "tokenizer.json", and every other file of the tokenizer that lies
// beside it: what a checkpoint carries along. Throws IoError naming a file that cannot be read.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& tokenizer_json);

// Null when there is none of this name.
const std::string* find_file(const TokenizerFiles& files, const std::string& name);

// Names of the files in a folder that belong to a tokenizer of any kind, readable here or not.
std::vector<std::string> list_tokenizer_files(const std::filesystem::path& folder);

}  // namespace colossal::text
