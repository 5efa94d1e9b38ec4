// The byte-level tokenizer (specification "bytes"), which needs no files. Each byte of a text is
// one token: its id is the byte's value. Token 256 ends a text and decodes to "<|endoftext|>".
#pragma once

#include "colossal/text/tokenizer/tokenizer.h"

namespace colossal::text {

// Accepts any bytes, also invalid UTF-8. The text "<|endoftext|>" is encoded as its 13 bytes, not
// as token 256. files() has a tokenizer.json with which `transformers` produces the same tokens.
class BytesTokenizer : public Tokenizer {
 public:
  static constexpr int32_t kEndOfText = 256;

  BytesTokenizer();  // files() returns generated files
  // files: returned by files(); must satisfy is_described_by().
  explicit BytesTokenizer(TokenizerFiles files);
  // Returns true if the files are those of a BytesTokenizer: tokenizer.json is exactly the
  // generated file, and tokenizer_config.json sets eos_token to "<|endoftext|>" and
  // split_special_tokens to true. Throws ConfigError if tokenizer.json is the generated file but
  // tokenizer_config.json is invalid.
  static bool is_described_by(const TokenizerFiles& files);

  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  bool is_concatenative() const override { return true; }
  // SpecialToken::text is empty, because encode() never returns kEndOfText.
  std::vector<SpecialToken> special_tokens() const override { return {{kEndOfText, ""}}; }
  int32_t vocabulary_size() const override { return kEndOfText + 1; }
  int32_t end_of_text() const override { return kEndOfText; }
  std::string fingerprint() const override { return "bytes"; }
  TokenizerFiles files() const override { return files_; }

 private:
  TokenizerFiles files_;
};

}  // namespace colossal::text
