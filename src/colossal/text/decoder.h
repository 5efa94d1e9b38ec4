// Decodes tokens to bytes, one token at a time.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// Ids without a token decode to nothing: a model's embedding may have more rows than the vocabulary
// has tokens.
class Decoder {
 public:
  // added_tokens: `content` as in the text (normalized, for tokens with match_normalized).
  Decoder(const TokenizerDefinition& definition, const std::vector<AddedToken>& added_tokens);

  // Appends the token's bytes. first: the token is the first of a text, where its leading space may
  // be dropped. Returns true if the token would have bytes with first = false; the following
  // tokens are then not first.
  bool append(int32_t token, bool first, std::string& bytes) const;

  int32_t vocabulary_size() const { return vocabulary_size_; }  // largest token id + 1

 private:
  void add(int32_t token, const std::string& content, const DecoderDefinition& definition);

  std::unordered_map<int32_t, std::string> bytes_of_token_;
  // Only tokens that decode differently at the start of a text.
  std::unordered_map<int32_t, std::string> bytes_of_first_;
  int32_t vocabulary_size_ = 0;
};

}  // namespace colossal::text
