// Finds added tokens ("<|endoftext|>") in a text, as the `tokenizers` library does.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "colossal/text/byte_trie.h"
#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// Finds added tokens from left to right: at each position the longest token that begins there wins.
// A token within which another begins hides it, even where the first is then rejected as not a
// single word.
class AddedTokenFinder {
 public:
  // tokens: with `content` as it is to be found.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // Calls, from left to right, either for each part of the text. Parts of text are not empty.
  void split(std::string_view text, const std::function<void(std::string_view)>& on_text,
             const std::function<void(int32_t)>& on_token) const;

 private:
  const AddedToken* longest_at(std::string_view text, size_t position) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // to indices into tokens_
  std::array<bool, 256> begins_token_{};
};

}  // namespace colossal::text
