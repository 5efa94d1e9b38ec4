// The interface of tokenizers, which turn text into token ids and back, and the function that opens
// a tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/text/tokenizer/tokenizer_files.h"

namespace colossal::text {

// Thrown by encode() of a tokenizer that requires UTF-8 for text that is not UTF-8.
class InvalidText : public Error {
 public:
  explicit InvalidText(int64_t offset);
  int64_t offset;  // of the first invalid byte
};

// A control token, such as the end of a message.
struct SpecialToken {
  int32_t token;
  // Text that encode() maps to this token. Exception: if split_special_tokens is set in
  // tokenizer_config.json, encode() treats this text like any other. Empty for a token without such
  // a text (BytesTokenizer).
  std::string text;
};

// A sequence of tokens with the type of each: which text of a pair it belongs to, for models that
// have an embedding of token types.
struct TypedTokens {
  std::vector<int32_t> tokens;
  std::vector<int32_t> types;  // as many as tokens
};

// Turns text into token ids and back. Immutable and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Returns the tokens of `text`. Adds no special tokens before or after them. Throws InvalidText;
  // ConfigError if a word has 2 GiB or more, or if a regular expression exceeds its limits.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // Like encode(), but adds the special tokens that the model expects before and after a text, such
  // as "<s>".
  virtual std::vector<int32_t> encode_prompt(std::string_view text) const { return encode(text); }
  // Encodes one text, or a pair of texts as one sequence, with the special tokens that the model
  // expects, and truncates the texts so that there are at most `most` tokens: of a pair, the longer
  // text first, as `transformers` does with truncation = "longest_first". second: null: one text.
  // most: at least the number of special tokens.
  TypedTokens encode_texts(std::string_view first, const std::string* second, int64_t most) const;
  // Returns the bytes of the tokens. The bytes may end within a UTF-8 character. An id without a
  // token decodes to no bytes: a model's embedding may have more rows than the vocabulary has
  // tokens.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;

  // Like decode(), but for tokens that continue a text. Some tokenizers drop a leading space, but
  // only at the beginning of a text.
  virtual std::string decode_continuation(std::span<const int32_t> tokens) const {
    return decode(tokens);
  }

  // Returns true if encode() accepts any bytes, and encode(a + b) equals encode(a) followed by
  // encode(b) for all texts a and b. A large file can then be encoded in pieces.
  virtual bool is_concatenative() const { return false; }

  // Returns the control tokens in no particular order.
  virtual std::vector<SpecialToken> special_tokens() const { return {}; }

  virtual int32_t vocabulary_size() const = 0;  // largest token id + 1
  virtual int32_t end_of_text() const = 0;      // id of the token that separates documents
  // Returns the special tokens that encode_prompt() adds before a text, e.g. a beginning-of-text
  // token.
  virtual std::vector<int32_t> beginning_of_text() const { return {}; }
  // Returns the token that the tokenizer's files name "bos_token"; nullopt if there is none.
  virtual std::optional<int32_t> bos_token() const { return std::nullopt; }
  // Returns the token that replaces masked tokens, in the training of encoders; nullopt if there is
  // none.
  virtual std::optional<int32_t> mask_token() const { return std::nullopt; }
  // Identifies what encode() computes: two tokenizers with equal fingerprints encode every text to
  // the same tokens. Part of the key under which the tokens of a corpus are cached.
  virtual std::string fingerprint() const = 0;
  // Returns the files to store in a checkpoint: the files from which the tokenizer was read, and
  // generated files where a needed file is missing.
  virtual TokenizerFiles files() const = 0;

  // Like encode(), but a special token that has one of the `breaks` within it is encoded as other
  // text is. breaks: byte offsets in `text`, ascending.
  virtual std::vector<int32_t> encode_with_breaks(
      std::string_view text, [[maybe_unused]] std::span<const size_t> breaks) const {
    return encode(text);
  }

 protected:
  // Returns the sequence for a text, or a pair of texts, with these tokens, with all special
  // tokens. second: null: one text.
  virtual TypedTokens arrange(const std::vector<int32_t>& first,
                              const std::vector<int32_t>* second) const;
};

// Opens a tokenizer. specification: "bytes" (BytesTokenizer), the path of a tokenizer.json, or a
// folder with a tokenizer.json. If the files are those that a BytesTokenizer stored in a
// checkpoint, returns a BytesTokenizer, else a PipelineTokenizer. Throws ConfigError naming an
// unsupported setting, IoError if a file cannot be read.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& specification);

}  // namespace colossal::text
