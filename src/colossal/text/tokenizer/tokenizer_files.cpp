#include "colossal/text/tokenizer/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "colossal/io/file.h"

namespace colossal::text {
namespace {

namespace fs = std::filesystem;

// Files beside a tokenizer.json: those that `transformers` looks for, and those of other kinds of
// tokenizers.
constexpr const char* kCompanionNames[] = {
    kTokenizerConfigFile, kSpecialTokensFile,   "added_tokens.json", "vocab.json",
    "merges.txt",         "vocab.txt",          kTemplateFile,       "chat_template.json",
    "tokenizer.model",    "tokenizer.model.v3", "spiece.model",      "sentencepiece.bpe.model",
    "tiktoken.model",     "tekken.json"};

std::vector<std::string> list_companions(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;  // a file that cannot be looked up counts as missing
  for (const char* name : kCompanionNames) {
    if (fs::exists(folder / name, ignored)) names.emplace_back(name);
  }
  const std::vector<std::string> templates = names_of_more_templates(folder);
  names.insert(names.end(), templates.begin(), templates.end());
  return names;
}

}  // namespace

std::vector<std::string> names_of_more_templates(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;  // a missing folder has no templates
  for (const auto& entry : fs::directory_iterator(folder / kMoreTemplates, ignored)) {
    if (entry.path().extension() != ".jinja") continue;
    names.push_back(fmt::format("{}/{}", kMoreTemplates, entry.path().filename().string()));
  }
  std::ranges::sort(names);
  return names;
}

TokenizerFiles read_tokenizer_files(const fs::path& tokenizer_json) {
  TokenizerFiles files{{kTokenizerFile, io::read_file(tokenizer_json)}};
  for (const std::string& name : list_companions(tokenizer_json.parent_path())) {
    files.emplace_back(name, io::read_file(tokenizer_json.parent_path() / name));
  }
  return files;
}

const std::string* find_file(const TokenizerFiles& files, const std::string& name) {
  const auto found = std::ranges::find(files, name, &TokenizerFiles::value_type::first);
  return found == files.end() ? nullptr : &found->second;
}

std::vector<std::string> list_tokenizer_files(const fs::path& folder) {
  std::vector<std::string> names = list_companions(folder);
  std::error_code ignored;
  if (fs::exists(folder / kTokenizerFile, ignored)) names.emplace_back(kTokenizerFile);
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".tiktoken") names.push_back(entry.path().filename().string());
  }
  return names;
}

}  // namespace colossal::text
