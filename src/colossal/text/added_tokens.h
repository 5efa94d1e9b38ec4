// Finds added tokens ("<|endoftext|>") in a text, like the `tokenizers` library.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "colossal/text/byte_trie.h"
#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// Finds added tokens from left to right. Of several tokens that begin at the same position, the
// longest wins. A match consumes its text even if `single_word` then rejects the match: a token
// that begins within the rejected match is not found.
class AddedTokenFinder {
 public:
  // tokens: `content` is the text to search for: not empty, and already normalized for tokens with
  // match_normalized. `match_normalized` itself is ignored.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // Cuts the text at the added tokens. From left to right, calls on_text with each non-empty part
  // between tokens, and on_token with the id of each token.
  void split(std::string_view text, const std::function<void(std::string_view)>& on_text,
             const std::function<void(int32_t)>& on_token) const;

 private:
  const AddedToken* longest_at(std::string_view text, size_t position) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;                         // values are indices into tokens_
  std::array<bool, 256> begins_token_{};  // by byte: a token begins with this byte
};

}  // namespace colossal::text
