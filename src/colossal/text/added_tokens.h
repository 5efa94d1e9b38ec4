// Finds added tokens ("<|endoftext|>") in a text, as the `tokenizers` library does.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// At each position from left to right the longest token that begins there wins. A token within
// which another begins hides it, even where the first is then rejected as not a single word.
class AddedTokenFinder {
 public:
  // tokens: with `content` as it is to be found.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // Calls, from left to right, either for each part of the text. Parts of text are not empty.
  void split(std::string_view text, const std::function<void(std::string_view)>& on_text,
             const std::function<void(int32_t)>& on_token) const;

 private:
  // A trie over bytes: the children of a node are its edges, sorted by byte.
  struct TrieNode {
    std::vector<std::pair<uint8_t, uint32_t>> edges;
    int32_t token = -1;  // index into tokens_ of the one that ends here
  };
  void insert(const std::string& content, int32_t token);
  const AddedToken* longest_at(std::string_view text, size_t position) const;

  std::vector<AddedToken> tokens_;
  std::vector<TrieNode> nodes_;
  std::array<bool, 256> begins_token_{};
};

}  // namespace colossal::text
