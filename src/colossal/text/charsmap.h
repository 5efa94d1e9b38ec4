// SentencePiece's replacement table ("precompiled_charsmap"): a double-array trie that maps
// substrings to their replacements. Sources: Aoe, "An Efficient Digital Search Algorithm by Using a
// Double-Array Structure", 1989; binary layout of the library Darts-clone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::text {

class Charsmap {
 public:
  // table: the bytes of the file's table, after base64 decoding. Throws ConfigError if the table is
  // truncated or its replacements are not valid UTF-8.
  explicit Charsmap(std::string_view table);

  // Replaces the text grapheme by grapheme, like the `tokenizers` library: a grapheme of up to 5
  // bytes by the replacement of the shortest key that it begins with; if there is none, or if the
  // grapheme is longer, each of its characters in this way. Other characters are kept. text: valid
  // UTF-8. Throws ConfigError if the table points outside itself.
  std::string replace(std::string_view text) const;

 private:
  std::optional<std::string_view> replacement_of(std::string_view piece) const;
  void append_grapheme(std::string_view grapheme, std::string& result) const;

  std::vector<uint32_t> units_;  // the nodes of the double-array trie, as in the file
  std::string replacements_;     // each one is zero-terminated
};

// Decodes padded base64 (RFC 4648); nullopt if `text` is not valid base64.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace colossal::text
