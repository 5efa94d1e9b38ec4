// Turns tokens into text, token by token.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// Tokens without a meaning (a model may have more than the vocabulary) stand for nothing.
class Decoder {
 public:
  // added_tokens: as they stand in a text.
  Decoder(const TokenizerDefinition& definition, const std::vector<AddedToken>& added_tokens);

  // Appends the token's bytes; returns whether it has any, though a text's first token may lose
  // them.
  bool append(int32_t token, bool first, std::string& bytes) const;

  int32_t vocabulary_size() const { return vocabulary_size_; }  // one more than the largest token

 private:
  void add(int32_t token, const std::string& content, const DecoderDefinition& definition);

  std::unordered_map<int32_t, std::string> bytes_of_token_;
  std::unordered_map<int32_t, std::string> bytes_of_first_;  // where they differ from those
  int32_t vocabulary_size_ = 0;
};

}  // namespace colossal::text
