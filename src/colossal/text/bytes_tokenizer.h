// The byte-level tokenizer, which needs no file: token b < 256 is byte b; token 256 ends a text and
// decodes to "<|endoftext|>".
#pragma once

#include "colossal/text/tokenizer.h"

namespace colossal::text {

// Accepts any bytes. "<|endoftext|>" in a text is encoded as plain text: thirteen tokens. files()
// includes a tokenizer.json with which `transformers` produces the same tokens.
class BytesTokenizer : public Tokenizer {
 public:
  static constexpr int32_t kEndOfText = 256;

  BytesTokenizer();                               // generates its files
  explicit BytesTokenizer(TokenizerFiles files);  // files: must satisfy is_described_by()
  // Returns true if the files define the tokens of a BytesTokenizer: their tokenizer.json is
  // exactly the generated one, and tokenizer_config.json agrees with it. Throws ConfigError if the
  // latter is invalid.
  static bool is_described_by(const TokenizerFiles& files);

  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  bool is_concatenative() const override { return true; }
  std::vector<SpecialToken> special_tokens() const override { return {{kEndOfText, ""}}; }
  int32_t vocabulary_size() const override { return kEndOfText + 1; }
  int32_t end_of_text() const override { return kEndOfText; }
  std::string fingerprint() const override { return "bytes"; }
  TokenizerFiles files() const override { return files_; }

 private:
  TokenizerFiles files_;
};

}  // namespace colossal::text
