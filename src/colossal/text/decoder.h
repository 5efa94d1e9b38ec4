// Decodes tokens to bytes, one token at a time.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// Immutable and thread-safe. Ids without a token decode to nothing: a model's embedding may have
// more rows than the vocabulary has tokens.
class Decoder {
 public:
  // added_tokens: replaces definition.added_tokens; `content` is already normalized for tokens with
  // match_normalized.
  Decoder(const TokenizerDefinition& definition, const std::vector<AddedToken>& added_tokens);

  // Appends the token's bytes. first: decode as at the beginning of a text, where a leading space
  // may be dropped. To decode a whole text, pass first = true up to and including the first token
  // for which append() returns true: one that has bytes within a text.
  bool append(int32_t token, bool first, std::string& bytes) const;

  int32_t vocabulary_size() const { return vocabulary_size_; }  // largest token id + 1

 private:
  void add(int32_t token, const std::string& content, const DecoderDefinition& definition);

  std::unordered_map<int32_t, std::string> bytes_of_token_;
  // Bytes at the beginning of a text, only of tokens that decode differently there.
  std::unordered_map<int32_t, std::string> bytes_of_first_;
  int32_t vocabulary_size_ = 0;
};

}  // namespace colossal::text
