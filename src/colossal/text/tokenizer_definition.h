// What a tokenizer.json of a BPE kind says, as plain data, checked. There are two such kinds:
// byte-level BPE (GPT-2, Llama 3, Qwen2) merges bytes, written in GPT-2's alphabet; the other one
// (Llama 2, Mistral) merges characters, and may fall back to bytes for those that it does not know.
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

struct PatternDefinition {
  std::string expression;  // for PCRE2
  std::string name;        // as the file has it
};

// A change of the text before it is cut.
struct NormalizerStep {
  enum class Kind {
    compose,  // to Unicode normalization form C
    prepend,  // `content` before the text
    replace,  // each match of `pattern` by `content`
  };
  Kind kind = Kind::compose;
  std::string content = {};
  PatternDefinition pattern = {};
};

// A cut of the text by a regular expression.
struct SplitDefinition {
  PatternDefinition pattern;
  bool keep_matches = true;
  bool keep_rest = true;  // what lies between the matches
};

// What is done to each piece that comes out of the step before, in the order of the fields.
struct PreTokenizerStep {
  std::string space = {};   // written in place of each space; empty: spaces stay
  std::string prefix = {};  // put before a piece that does not begin with it; empty: nothing is
  bool prefix_begins_text_only = false;  // only before the piece with which the text begins
  std::optional<SplitDefinition> split = {};
};

struct BpeDefinition {
  std::vector<std::pair<std::string, int32_t>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  // best first
  std::optional<std::string> unknown_token;
  bool fuse_unknown = false;
  bool ignore_merges = false;  // a word that is a token is that token
  bool byte_level = true;      // tokens are in GPT-2's byte alphabet; else they are text
  bool byte_fallback = false;  // "<0x0A>" is the token of a byte, for characters that have none

  // Numbers by token, as long as the vocabulary stays as it is.
  std::unordered_map<std::string_view, int32_t> index() const;
};

// How tokens that are text become text again: the order of the fields, for each token by itself.
struct DecoderDefinition {
  struct Replacement {
    std::string literal;
    std::string content;
    std::string content_in_first;  // in the first token of a text
  };
  std::vector<Replacement> replacements;
  bool byte_fallback = false;  // "<0x0A>" is a byte
  std::string strip;           // what a text loses once at its beginning; empty: nothing
};

struct TokenizerDefinition {
  BpeDefinition model;
  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  DecoderDefinition decoder;                     // of tokens that are text
  std::vector<int32_t> before_text, after_text;  // what a model expects around a text
};

// json: content of the file; file: its path, for messages. Throws ConfigError.
TokenizerDefinition read_tokenizer_definition(std::string_view json, const std::string& file);

// What tokenizer_config.json and special_tokens_map.json say that bears on the tokens themselves.
struct TokenizerConfig {
  std::vector<std::string> ends_of_text;  // "eos_token", where it is given
  bool split_special_tokens = false;      // special tokens in a text are text like any other
};
TokenizerConfig read_tokenizer_config(std::string_view json, const std::string& file);

// The "eos_token_id" of a model's config.json, the first one of a list.
std::optional<int32_t> read_end_of_text(std::string_view config_json, const std::string& file);

}  // namespace colossal::text
