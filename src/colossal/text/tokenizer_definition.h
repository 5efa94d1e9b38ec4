// The contents of a tokenizer.json as plain data, checked. Its model is BPE, Unigram or WordPiece.
// There are two kinds of BPE: the byte-level one (GPT-2, Llama 3, Qwen2) merges bytes, written in
// GPT-2's alphabet; the other one (Llama 2, Gemma, Mistral) merges characters, and may fall back to
// bytes for those that it does not know, as Unigram (T5, XLM-R) may.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "colossal/text/normalization_form.h"

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
    form,              // to the Unicode normalization form `form`
    prepend,           // `content` before the text
    replace,           // each match of `pattern` by `content`
    lower_case,        // each character by itself
    strip,             // white space off the text's ends, as the flags say
    strip_marks,       // combining marks go
    strip_accents,     // form D without its nonspacing marks
    clean,             // control characters go, other spaces become spaces
    space_ideographs,  // a space on both sides of each Chinese character
    clean_nmt,         // as `clean`, with the sets of the sentencepiece rule "nmt"
    charsmap,          // sentencepiece's table of replacements, `content`
  };
  Kind kind = Kind::form;
  std::string content = {};
  PatternDefinition pattern = {};
  NormalizationForm form = NormalizationForm::nfc;
  bool strip_left = false, strip_right = false;

  // Whether text after it may begin further on in the text before it.
  bool may_drop_the_beginning() const;
};

// A cut of the text by a regular expression, at both ends of each match.
struct SplitDefinition {
  enum class Behavior {
    isolated,              // matches are pieces, and so is what lies between
    removed,               // matches go
    merged_with_previous,  // a match belongs to what is before it
    merged_with_next,
    contiguous,  // matches that touch are one piece
  };
  PatternDefinition pattern;
  Behavior behavior = Behavior::isolated;
  bool invert = false;  // what lies between matches counts as match, and the other way round
};

// One step of pre-tokenization. It is applied to each piece of the step before, in the order of the
// fields.
struct PreTokenizerStep {
  std::string space = {};   // written in place of each space; empty: spaces stay
  std::string prefix = {};  // put before a piece that does not begin with it; empty: nothing is
  bool prefix_begins_text_only = false;  // only before the piece with which the text begins
  std::optional<SplitDefinition> split = {};
  bool to_byte_alphabet = false;  // further steps see the bytes as GPT-2's alphabet writes them
};

using Vocabulary = std::vector<std::pair<std::string, int32_t>>;

// Returns the numbers by token, valid as long as the vocabulary does not change.
std::unordered_map<std::string_view, int32_t> index_of(const Vocabulary& vocabulary);

struct BpeDefinition {
  std::vector<std::pair<std::string, std::string>> merges;  // best first
  std::optional<std::string> unknown_token;
  bool fuse_unknown = false;
  bool ignore_merges = false;  // a word that is a token is that token
  bool byte_fallback = false;  // "<0x0A>" is the token of a byte, for characters that have none
};

struct UnigramDefinition {
  std::vector<double> scores;  // of the token with this number: log-probability
  int32_t unknown = 0;
  bool byte_fallback = false;
};

struct WordPieceDefinition {
  std::string unknown_token;
  std::string continuing_prefix;    // begins a token that does not begin a word: "##"
  int64_t max_word_characters = 0;  // a longer word is unknown
};

// How tokens that are text become text again: by each field in order, token by token.
struct DecoderDefinition {
  struct Replacement {
    std::string literal;
    std::string content;
    std::string content_in_first;  // in the first token of a text
  };
  std::vector<Replacement> replacements;
  bool byte_fallback = false;  // "<0x0A>" is a byte
  std::string strip;           // what a text loses once at its beginning; empty: nothing

  struct Words {
    std::string continuing_prefix;  // a token without it begins a word: a space comes before it
    bool clean_up = false;          // no space before punctuation and contractions
  };
  std::optional<Words> words;  // of tokens that are parts of words, as in WordPiece
};

struct TokenizerDefinition {
  Vocabulary vocabulary;
  std::variant<BpeDefinition, UnigramDefinition, WordPieceDefinition> model;
  bool byte_level = false;  // tokens are in GPT-2's byte alphabet; else they are text
  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  DecoderDefinition decoder;                     // of tokens that are text
  std::vector<int32_t> before_text, after_text;  // what a model expects around a text
};

// json: content of the file; file: its path, for messages. Throws ConfigError.
TokenizerDefinition read_tokenizer_definition(std::string_view json, const std::string& file);

// The settings of tokenizer_config.json and special_tokens_map.json that affect tokens.
struct TokenizerConfig {
  std::vector<std::string> ends_of_text;  // "eos_token", where it is given
  bool split_special_tokens = false;      // special tokens in a text are text like any other
};
TokenizerConfig read_tokenizer_config(std::string_view json, const std::string& file);

// The "eos_token_id" of a model's config.json, the first one of a list.
std::optional<int32_t> read_end_of_text(std::string_view config_json, const std::string& file);

}  // namespace colossal::text
