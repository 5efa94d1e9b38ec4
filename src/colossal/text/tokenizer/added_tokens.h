// Finds added tokens, such as "<|endoftext|>", in a text and cuts the text at them.
// PipelineTokenizer uses one finder on the text as given and a second finder on the normalized
// text. The results are those of the `tokenizers` library.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "colossal/text/tokenizer/byte_trie.h"
#include "colossal/text/tokenizer/tokenizer_definition.h"

namespace colossal::text {

// Searches from left to right. If several tokens match at one position, the longest token is tried.
// If this token has `single_word` and the text around it rejects the match, the search continues
// after the rejected match. Tokens that begin inside a rejected match are not found.
//
// Immutable and thread-safe.
class AddedTokenFinder {
 public:
  // tokens: the search looks for each token's `content`, which must not be empty. For tokens with
  // match_normalized, the caller passes `content` already normalized; the finder itself does not
  // read match_normalized.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // Cuts `text` (valid UTF-8) at the added tokens. From left to right, calls on_text with each
  // non-empty part between tokens, and on_token with the id of each token. The parts are views into
  // `text`. White space that strip_left or strip_right consumes is in no part. breaks: byte
  // offsets, ascending; special tokens that have one within them are not found.
  void split(std::string_view text, std::span<const size_t> breaks,
             const std::function<void(std::string_view)>& on_text,
             const std::function<void(int32_t)>& on_token) const;

 private:
  // Returns the longest token with which the text at byte `position` begins; null if there is none.
  // most: greatest length of a special token.
  const AddedToken* longest_at(std::string_view text, size_t position, size_t most) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;                         // values are indices into tokens_
  std::array<bool, 256> begins_token_{};  // [byte]: whether a token begins with this byte
};

}  // namespace colossal::text
