// The tokenizer that needs no file: a token is a byte, 256 ends a text.
#pragma once

#include "colossal/text/tokenizer.h"

namespace colossal::text {

// Any bytes are fine. "<|endoftext|>" within a text is text: thirteen bytes. files() has a
// tokenizer.json through which `transformers` gives the same tokens.
class BytesTokenizer : public Tokenizer {
 public:
  static constexpr int32_t kEndOfText = 256;

  BytesTokenizer();                               // with files made for it
  explicit BytesTokenizer(TokenizerFiles files);  // which describe it
  // Whether a folder with these files has this tokenizer.
  static bool is_described_by(const TokenizerFiles& files);

  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  bool takes_pieces() const override { return true; }
  std::vector<SpecialToken> special_tokens() const override { return {{kEndOfText, ""}}; }
  int32_t vocabulary_size() const override { return kEndOfText + 1; }
  int32_t end_of_text() const override { return kEndOfText; }
  std::string fingerprint() const override { return "bytes"; }
  TokenizerFiles files() const override { return files_; }

 private:
  TokenizerFiles files_;
};

}  // namespace colossal::text
