// What a tokenizer.json of the byte-level BPE kind says, as plain data, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace colossal::text {

// A token that is found in the text before anything else is done to it.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;       // only where no word character touches it
  bool strip_left = false;        // takes the white space to its left with it
  bool strip_right = false;       // and to its right
  bool match_normalized = false;  // is looked for in the normalized text
  bool special = false;
};

// A cut of the text by a regular expression.
struct SplitDefinition {
  std::string expression;  // for PCRE2
  std::string name;        // as the file has it
  bool keep_matches = true;
  bool keep_rest = true;  // what lies between the matches
};

struct BpeDefinition {
  std::vector<std::pair<std::string, int32_t>> vocabulary;  // tokens in GPT-2's byte alphabet
  std::vector<std::pair<std::string, std::string>> merges;  // best first
  std::optional<std::string> unknown_token;
  bool fuse_unknown = false;
  bool ignore_merges = false;  // a word that is a token is that token

  // Numbers by token, as long as the vocabulary stays as it is.
  std::unordered_map<std::string_view, int32_t> index() const;
};

struct TokenizerDefinition {
  BpeDefinition model;
  std::vector<AddedToken> added_tokens;
  std::vector<SplitDefinition> splits;  // applied one after another
  bool add_prefix_space = false;  // to each piece that comes out of the splits before `prefix_at`
  size_t prefix_at = 0;           // number of splits that run before the space is put there
  bool compose = false;           // normalize to NFC first
};

// json: content of the file; file: its path, for messages. Throws ConfigError.
TokenizerDefinition read_tokenizer_definition(std::string_view json, const std::string& file);

// What tokenizer_config.json says that bears on the tokens themselves.
struct TokenizerConfig {
  std::optional<std::string> end_of_text;  // "eos_token"
  bool split_special_tokens = false;       // special tokens in a text are text like any other
};
TokenizerConfig read_tokenizer_config(std::string_view json, const std::string& file);

}  // namespace colossal::text
