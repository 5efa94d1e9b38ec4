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

// The text is not UTF-8, and the tokenizer needs it to be. `offset`: of the first bad byte.
class InvalidText : public Error {
 public:
  explicit InvalidText(int64_t offset);
  int64_t offset;
};

// A token that no text of a user can stand for, such as the end of a message.
struct SpecialToken {
  int32_t token;
  std::string text;  // which encode() reads as this token; empty: none
};

// Immutable once made; may be used from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Tokens of the text, with no special tokens added around it. Throws InvalidText.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // Encodes a prompt: the text, and the tokens that the model expects around it, such as "<s>"
  // before it.
  virtual std::vector<int32_t> encode_prompt(std::string_view text) const { return encode(text); }
  // The bytes that the tokens stand for. They may break off within a UTF-8 character. A number that
  // is no token's (a model's vocabulary may be larger) stands for none.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;

  // The same of tokens that come after others, not at the beginning of a text, where some
  // tokenizers leave out a space.
  virtual std::string decode_continuation(std::span<const int32_t> tokens) const {
    return decode(tokens);
  }

  // Whether any bytes are fine and tokens do not depend on what is around them: encode(a + b) is
  // encode(a), encode(b) wherever the cut, so that a huge file need not be held whole.
  virtual bool takes_pieces() const { return false; }

  virtual std::vector<SpecialToken> special_tokens() const { return {}; }

  virtual int32_t vocabulary_size() const = 0;  // one more than the largest token
  virtual int32_t end_of_text() const = 0;      // joins documents
  // Changes whenever encode() could give something else; part of a cache's key.
  virtual std::string fingerprint() const = 0;
  // Returns the files that a checkpoint carries along: those that the tokenizer was read from, or
  // files made for it.
  virtual TokenizerFiles files() const = 0;
};

// specification: "bytes", the path of a tokenizer.json, or a folder that holds one. Files that a
// tokenizer of bytes has given to a checkpoint give it back.
// Throws ConfigError for an unsupported kind (naming it), IoError for a file that cannot be read.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& specification);

}  // namespace colossal::text
