// The contents of a tokenizer.json as plain, validated data. The model is BPE, Unigram or
// WordPiece. There are two kinds of BPE: byte-level BPE (GPT-2, Llama 3, Qwen2) merges bytes,
// written in GPT-2's byte alphabet; character-level BPE (Llama 2, Gemma, Mistral) merges
// characters. Character-level BPE and Unigram (T5, XLM-R) may have byte fallback for unknown
// characters.
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

// A token that is found in the text before the text is split (and, unless match_normalized, before
// it is normalized).
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;       // matches only if no word character precedes or follows
  bool strip_left = false;        // also consumes the white space to its left
  bool strip_right = false;       // also consumes the white space to its right
  bool match_normalized = false;  // searched for in the normalized text
  bool special = false;           // a control token, such as the end of a message
};

// A regular expression.
struct PatternDefinition {
  std::string expression;  // PCRE2 syntax
  std::string name;        // as written in the file, for error messages
};

// One step of normalization. A kind uses only the fields that its comment names.
struct NormalizerStep {
  enum class Kind {
    form,              // apply the Unicode normalization form `form`
    prepend,           // put `content` before the text
    replace,           // replace each match of `pattern` with `content`
    lower_case,        // character by character, without context
    strip,             // strip white space from the ends, per strip_left and strip_right
    strip_marks,       // remove combining marks
    strip_accents,     // apply NFD, then remove nonspacing marks
    clean,             // remove control characters; replace all white space with spaces
    space_ideographs,  // put a space on both sides of each Chinese character
    clean_nmt,         // like `clean`, with the character sets of SentencePiece's rule "nmt"
    charsmap,          // replace substrings by SentencePiece's table; `content`: its bytes
  };
  Kind kind = Kind::form;
  std::string content = {};
  PatternDefinition pattern = {};
  NormalizationForm form = NormalizationForm::nfc;
  bool strip_left = false, strip_right = false;

  // Returns true if the step may remove the first character of a text.
  bool may_drop_the_beginning() const;
};

// Splits a text at the matches of a regular expression.
struct SplitDefinition {
  enum class Behavior {
    isolated,              // each match is a piece, and so is each part between matches
    removed,               // each part between matches is a piece; matches are dropped
    merged_with_previous,  // like isolated, but a match joins the part before it
    merged_with_next,      // like isolated, but a match joins the part after it
    contiguous,            // like isolated, but adjacent matches form one piece
  };
  PatternDefinition pattern;
  Behavior behavior = Behavior::isolated;
  bool invert = false;  // swap matches and the parts between them
};

// One step of pre-tokenization. Each step is applied to every piece of the step before it; within a
// step, the fields are applied in order.
struct PreTokenizerStep {
  std::string space = {};   // replaces each space; empty: spaces are kept
  std::string prefix = {};  // put before each piece that does not begin with it; empty: none
  bool prefix_begins_text_only = false;  // only for the piece at the beginning of the text
  std::optional<SplitDefinition> split = {};
  bool to_byte_alphabet = false;  // write the pieces in GPT-2's byte alphabet for later steps
};

// Tokens and their ids.
using Vocabulary = std::vector<std::pair<std::string, int32_t>>;

// Returns a map from token to id. Its keys refer to the vocabulary's strings.
std::unordered_map<std::string_view, int32_t> index_of(const Vocabulary& vocabulary);

struct BpeDefinition {
  std::vector<std::pair<std::string, std::string>> merges;  // in order of rank
  std::optional<std::string> unknown_token;
  bool fuse_unknown = false;   // a run of unknown characters becomes one unknown token
  bool ignore_merges = false;  // a word that is a token is not split further
  // Characters without a token become the tokens of their bytes, "<0x0A>".
  bool byte_fallback = false;
};

struct UnigramDefinition {
  std::vector<double> scores;  // by token id: log-probability
  int32_t unknown = 0;
  bool byte_fallback = false;
};

struct WordPieceDefinition {
  std::string unknown_token;
  std::string continuing_prefix;    // prefix of tokens that continue a word: "##"
  int64_t max_word_characters = 0;  // longer words become the unknown token
};

// How tokens that are not byte-level are decoded, each by itself. If `words` is set, only `words`
// is applied; otherwise the other fields are, in order.
struct DecoderDefinition {
  struct Replacement {
    std::string literal;           // the text to replace wherever it occurs
    std::string content;           // replaces it
    std::string content_in_first;  // replaces it in the first token of a text
  };
  std::vector<Replacement> replacements;
  bool byte_fallback = false;  // "<0x0A>" decodes to a byte
  std::string strip;           // removed once from the beginning of a text; empty: nothing

  struct Words {
    // Tokens with this prefix continue a word and lose the prefix; others get a space before them.
    // Neither applies to the first token of a text.
    std::string continuing_prefix;
    bool clean_up = false;  // remove spaces before punctuation and contractions
  };
  std::optional<Words> words;  // for tokens that are parts of words (WordPiece)
};

struct TokenizerDefinition {
  Vocabulary vocabulary;
  std::variant<BpeDefinition, UnigramDefinition, WordPieceDefinition> model;
  bool byte_level = false;  // tokens are written in GPT-2's byte alphabet, not as text
  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  DecoderDefinition decoder;                     // unused if byte_level
  std::vector<int32_t> before_text, after_text;  // special tokens that encode_prompt() adds
};

// json: content of the file. file: its path, for error messages. Throws ConfigError.
TokenizerDefinition read_tokenizer_definition(std::string_view json, const std::string& file);

// The settings of tokenizer_config.json and special_tokens_map.json that affect tokenization.
struct TokenizerConfig {
  std::vector<std::string> ends_of_text;  // "eos_token" of each file that sets it
  // Special tokens that are written in a text are encoded like any other text.
  bool split_special_tokens = false;
};
// json: content of one of the two files. file: its path, for error messages. Throws ConfigError.
TokenizerConfig read_tokenizer_config(std::string_view json, const std::string& file);

// Returns "eos_token_id" of a model's config.json (of a list, the first); nullopt if missing.
// config_json: content of the file. file: its path, for error messages. Throws ConfigError.
std::optional<int32_t> read_end_of_text(std::string_view config_json, const std::string& file);

}  // namespace colossal::text
