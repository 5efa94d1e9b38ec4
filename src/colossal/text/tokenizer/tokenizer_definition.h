// The contents of a tokenizer.json as plain, validated data, from which PipelineTokenizer is built.
//
// The word model is BPE, Unigram or WordPiece. Byte-level BPE (GPT-2, Llama 3, Qwen2) merges bytes;
// its tokens are written in GPT-2's byte alphabet. Character-level BPE (Llama 2, Gemma, Mistral)
// merges characters. Character-level BPE and Unigram (T5, XLM-R) may have byte fallback: a
// character without a token becomes the tokens of its bytes, such as "<0x0A>".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "colossal/text/tokenizer/normalization_form.h"

namespace colossal::text {

// A token that is searched for in the text itself, before the text is split into words. The search
// also comes before normalization, unless match_normalized.
struct AddedToken {
  std::string content;  // the text to search for
  int32_t id = 0;
  bool single_word = false;       // matches only if no word character is next to it
  bool strip_left = false;        // also consumes the white space to its left
  bool strip_right = false;       // also consumes the white space to its right
  bool match_normalized = false;  // searched for in the normalized text
  bool special = false;           // a control token, such as the end of a message

  bool operator==(const AddedToken&) const = default;
};

// A regular expression.
struct PatternDefinition {
  std::string expression;  // PCRE2 syntax
  std::string name;        // as written in the file, for error messages
};

// One step of normalization. Each kind uses only the fields that its comment names.
struct NormalizerStep {
  enum class Kind {
    form,              // apply the Unicode normalization form `form`
    prepend,           // put `content` before a text that is not empty
    replace,           // replace each match of `pattern` with `content`
    lower_case,        // map each character to lower case, without regard to its neighbors
    strip,             // remove white space on the left if strip_left, on the right if strip_right
    strip_marks,       // remove combining marks
    strip_accents,     // decompose characters (NFD), then remove nonspacing marks
    clean,             // remove control characters; replace each white space by a space (BERT)
    space_ideographs,  // put a space on both sides of each Chinese character
    clean_nmt,         // like `clean`, with the characters of SentencePiece's rule "nmt"
    charsmap,          // replace substrings; `content`: the bytes of a table, see Charsmap
  };
  Kind kind = Kind::form;
  std::string content = {};
  PatternDefinition pattern = {};
  NormalizationForm form = NormalizationForm::nfc;
  bool strip_left = false, strip_right = false;

  // Returns true if the step may remove the first character of a text without a replacement.
  // Returns false for a charsmap.
  bool may_remove_first_character() const;
};

// Splits a text at the matches of a regular expression.
struct SplitDefinition {
  enum class Behavior {    // what becomes a piece
    isolated,              // each match, and each part between matches
    removed,               // each part between matches; the matches are dropped
    merged_with_previous,  // like isolated, but a match is joined to the part before it
    merged_with_next,      // like isolated, but a match is joined to the part after it
    contiguous,            // like isolated, but adjacent matches are joined to one piece
  };
  PatternDefinition pattern;
  Behavior behavior = Behavior::isolated;
  bool invert = false;  // swap the roles of the matches and of the parts between them
};

// One step of pre-tokenization, applied to every piece that the previous step made. Within a step,
// the fields are applied in the order in which they are declared.
struct PreTokenizerStep {
  std::string space = {};  // replaces each space; empty: spaces are kept
  // Put before each piece that does not begin with it; empty: no prefix.
  std::string prefix = {};
  // Apply `prefix` only to the piece at the beginning of the whole text.
  bool prefix_begins_text_only = false;
  std::optional<SplitDefinition> split = {};
  // Write the pieces in GPT-2's byte alphabet, in which later steps split them.
  bool to_byte_alphabet = false;
};

// Pairs of a token's text and its id.
using Vocabulary = std::vector<std::pair<std::string, int32_t>>;

// Returns the id of each token by its text. The keys refer to strings of `vocabulary`.
std::unordered_map<std::string_view, int32_t> index_of(const Vocabulary& vocabulary);

// The model "BPE".
struct BpeDefinition {
  // Texts of the left and the right token of each merge. A merge's index is its rank: lower ranks
  // are applied first.
  std::vector<std::pair<std::string, std::string>> merges;
  std::optional<std::string> unknown_token;  // nullopt: unknown characters are dropped
  bool fuse_unknown = false;   // a run of unknown characters becomes one unknown token
  bool ignore_merges = false;  // a word that is a token becomes this token, without merges
  // Characters without a token become the tokens of their bytes.
  bool byte_fallback = false;
};

// The model "Unigram".
struct UnigramDefinition {
  std::vector<double> scores;  // log-probability by token id
  int32_t unknown = 0;         // id of the unknown token
  bool byte_fallback = false;  // unknown characters become the tokens of their bytes
};

// The model "WordPiece".
struct WordPieceDefinition {
  std::string unknown_token;
  std::string continuing_prefix;    // prefix of tokens that continue a word: "##"
  int64_t max_word_characters = 0;  // longer words become the unknown token
};

// How tokens that are not byte-level are decoded. What a token decodes to depends only on the token
// and on whether it is the first token of the text. If `words` is set, only `words` applies.
// Otherwise replacements, byte_fallback and strip apply, in this order.
struct DecoderDefinition {
  // Replaces a substring of a token wherever it occurs.
  struct Replacement {
    std::string literal;           // the substring
    std::string content;           // what replaces `literal`
    std::string content_in_first;  // what replaces `literal` in the first token of a text
  };
  std::vector<Replacement> replacements;
  bool byte_fallback = false;  // a token "<0x0A>" decodes to a byte
  std::string strip;  // removed once from the beginning of the first token; empty: nothing is

  // Of WordPiece, whose tokens are words or parts of words.
  struct Words {
    // A token with this prefix continues a word and loses the prefix. Any other token gets a space
    // before it. The first token of a text gets no space and keeps the prefix.
    std::string continuing_prefix;
    // Remove spaces before punctuation and contractions, and replace " do not" by " don't".
    bool clean_up = false;
  };
  std::optional<Words> words;
};

// A part of the sequence into which a pair of texts is encoded.
struct PairPart {
  enum class Kind { first_text, second_text, special_tokens };
  Kind kind = Kind::special_tokens;
  std::vector<int32_t> tokens = {};  // of Kind::special_tokens
  int32_t type = 0;                  // type of all tokens of the part
};

// The whole tokenizer.json.
struct TokenizerDefinition {
  Vocabulary vocabulary;
  std::variant<BpeDefinition, UnigramDefinition, WordPieceDefinition> model;
  bool byte_level = false;  // tokens are written in GPT-2's byte alphabet
  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  DecoderDefinition decoder;  // unused if byte_level
  // Special tokens that encode_prompt() puts before and after the tokens of a text.
  std::vector<int32_t> before_text, after_text;
  // How the special tokens and types of a pair of texts are arranged. Empty: the tokens of the
  // first text have type 0, those of the second text follow with type 1.
  std::vector<PairPart> pair;
};

// Reads a tokenizer.json. json: content of the file. file: path of the file, for error messages.
// Throws ConfigError naming a setting that is invalid or unsupported.
TokenizerDefinition read_tokenizer_definition(std::string_view json, const std::string& file);

// The settings of tokenizer_config.json that affect tokenization.
struct TokenizerConfig {
  std::optional<std::string> end_of_text;  // the text "eos_token"
  std::optional<std::string> mask;         // likewise for "mask_token"
  std::optional<std::string> beginning;    // likewise for "bos_token"
  // Encode special tokens that occur in a text like any other text.
  bool split_special_tokens = false;
};
// Reads tokenizer_config.json. json: content of the file. file: path of the file, for error
// messages. Throws ConfigError if the file is invalid.
TokenizerConfig read_tokenizer_config(std::string_view json, const std::string& file);

// Returns "eos_token_id" of a model's config.json; of a list, the first id; nullopt if missing or
// an empty list. config_json: content of the file. file: path of the file, for error messages.
// Throws ConfigError if the file is invalid.
std::optional<int32_t> read_end_of_text(std::string_view config_json, const std::string& file);

}  // namespace colossal::text
