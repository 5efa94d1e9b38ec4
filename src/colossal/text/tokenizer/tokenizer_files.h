// Finds and reads the files of a tokenizer in a Hugging Face model folder.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace colossal::text {

inline constexpr const char* kTokenizerFile = "tokenizer.json";
inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr const char* kSpecialTokensFile = "special_tokens_map.json";
inline constexpr const char* kTemplateFile = "chat_template.jinja";
// Folder with a Jinja file for each further template.
inline constexpr const char* kMoreTemplates = "additional_chat_templates";

// Pairs of a file's name, relative to the tokenizer's folder, and its content.
using TokenizerFiles = std::vector<std::pair<std::string, std::string>>;

// Reads a tokenizer.json and the other tokenizer files in its folder, including chat templates:
// what a checkpoint stores of the tokenizer. Files named *.tiktoken are not read. The file
// `tokenizer_json` comes first in the result, under the name "tokenizer.json" whatever its own name
// is. Throws IoError naming a file that cannot be read.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& tokenizer_json);

// Returns the content of the file `name`; null if `files` does not have it. The result points into
// `files`.
const std::string* find_file(const TokenizerFiles& files, const std::string& name);

// Returns the names of a folder's further chat templates, such as
// "additional_chat_templates/tool_use.jinja", relative to the folder and in alphabetical order.
std::vector<std::string> names_of_more_templates(const std::filesystem::path& folder);

// Returns the names of the tokenizer files in a folder, including files of tokenizers that Colossal
// cannot read (SentencePiece, tiktoken). Names are relative to the folder. Empty if the folder does
// not exist.
std::vector<std::string> list_tokenizer_files(const std::filesystem::path& folder);

}  // namespace colossal::text
