// SentencePiece's table of replacements ("precompiled_charsmap"): a double-array trie from pieces
// of text to what is written instead. Sources: Aoe, "An Efficient Digital Search Algorithm by Using
// a Double-Array Structure", 1989, as the library Darts-clone packs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::text {

class Charsmap {
 public:
  // table: as the file has it, decoded from base64. Throws ConfigError where it is cut short or is
  // not UTF-8 where it must be.
  explicit Charsmap(std::string_view table);

  // Graphemes of up to 5 bytes are looked up as a whole, then characters by themselves, as the
  // `tokenizers` library does. text: valid UTF-8. Throws ConfigError where the table leads nowhere.
  std::string replace(std::string_view text) const;

 private:
  std::optional<std::string_view> replacement_of(std::string_view piece) const;
  void append_grapheme(std::string_view grapheme, std::string& result) const;

  std::vector<uint32_t> units_;
  std::string replacements_;  // each ends with a zero byte
};

// Nothing where the text is no base64 (RFC 4648, padded).
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace colossal::text
