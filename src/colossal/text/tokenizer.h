// Turns text into tokens and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/text/tokenizer_files.h"

namespace colossal::text {

// Thrown for text that is not UTF-8 by tokenizers that require UTF-8. offset: of the first invalid
// byte.
class InvalidText : public Error {
 public:
  explicit InvalidText(int64_t offset);
  int64_t offset;
};

// A control token, such as the end of a message.
struct SpecialToken {
  int32_t token;
  std::string text;  // the text that encode() maps to this token; empty if there is none
};

// Immutable and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Returns the tokens of `text`, without adding special tokens before or after. Throws
  // InvalidText; ConfigError if a word has 2 GiB or more, or if a regular expression exceeds its
  // limits.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // Encodes a prompt: like encode(), but adds the special tokens that the model expects before and
  // after a text ("<s>").
  virtual std::vector<int32_t> encode_prompt(std::string_view text) const { return encode(text); }
  // Returns the bytes of the tokens. The bytes may end within a UTF-8 character. Ids without a
  // token decode to nothing (a model's embedding may have more rows than the vocabulary has
  // tokens).
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;

  // Like decode(), but for tokens that continue a text: some tokenizers drop a space only at the
  // beginning of a text.
  virtual std::string decode_continuation(std::span<const int32_t> tokens) const {
    return decode(tokens);
  }

  // Returns true if encode() accepts any bytes and encode(a + b) = encode(a) + encode(b) for every
  // cut, so that a large file can be encoded in pieces.
  virtual bool is_concatenative() const { return false; }

  virtual std::vector<SpecialToken> special_tokens() const { return {}; }

  virtual int32_t vocabulary_size() const = 0;  // largest token id + 1
  virtual int32_t end_of_text() const = 0;      // separates documents
  // Identifies what encode() computes: two tokenizers with equal fingerprints give every text equal
  // tokens. Part of the key of a token cache.
  virtual std::string fingerprint() const = 0;
  // Returns the files to store in a checkpoint: those from which the tokenizer was read, and
  // generated ones where these are missing.
  virtual TokenizerFiles files() const = 0;
};

// specification: "bytes", the path of a tokenizer.json, or a folder with one. Returns a
// BytesTokenizer also for the files that a BytesTokenizer has stored in a checkpoint. Throws
// ConfigError naming an unsupported setting, IoError if a file cannot be read.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& specification);

}  // namespace colossal::text
