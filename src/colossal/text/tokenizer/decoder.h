// Decodes token ids to bytes, one token at a time: the decoding half of PipelineTokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "colossal/text/tokenizer/tokenizer_definition.h"

namespace colossal::text {

// Decodes the tokens of one tokenizer. An id without a token decodes to no bytes: a model's
// embedding may have more rows than the vocabulary has tokens. Immutable and thread-safe.
class Decoder {
 public:
  // added_tokens: used instead of definition.added_tokens. For tokens with match_normalized,
  // `content` must already be normalized.
  Decoder(const TokenizerDefinition& definition, const std::vector<AddedToken>& added_tokens);

  // Appends the bytes of `token` to `bytes`. first: whether to decode the token as the first token
  // of a text, where some tokenizers drop a space.
  //
  // Returns whether the token has bytes when it is not the first token, whatever `first` is. To
  // decode a whole text, pass first = true until append() has returned true once, then false. So a
  // token of one space, which is dropped, counts as the first token; an id without a token does
  // not.
  bool append(int32_t token, bool first, std::string& bytes) const;

  int32_t vocabulary_size() const { return vocabulary_size_; }  // largest token id + 1

 private:
  // Adds a token that is not byte-level to bytes_of_token_ and, if it decodes differently at the
  // beginning of a text, to bytes_of_first_.
  void add(int32_t token, const std::string& content, const DecoderDefinition& definition);

  // Bytes by token id, anywhere but at the beginning of a text.
  std::unordered_map<int32_t, std::string> bytes_of_token_;
  // Bytes by token id at the beginning of a text; has only tokens that decode differently there.
  std::unordered_map<int32_t, std::string> bytes_of_first_;
  int32_t vocabulary_size_ = 0;
};

}  // namespace colossal::text
