// SentencePiece's replacement table, which a tokenizer.json stores in base64 as
// "precompiled_charsmap". Normalizer applies the table. The table is a double-array trie that maps
// byte strings (keys) to their replacements. Sources: Aoe, "An Efficient Digital Search Algorithm
// by Using a Double-Array Structure", 1989; binary layout of the library Darts-clone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::text {

// A replacement table. Immutable and thread-safe.
class Charsmap {
 public:
  // table: the table's bytes, after base64 decoding. Throws ConfigError if the table is truncated
  // or its replacements are not valid UTF-8.
  explicit Charsmap(std::string_view table);

  // Returns `text` (valid UTF-8) with its grapheme clusters replaced, like the `tokenizers`
  // library. A grapheme cluster of up to 5 bytes is looked up as a whole. If it begins with a key
  // of the table, the replacement of the shortest such key replaces the whole cluster. Otherwise,
  // and for longer clusters, each character is looked up in this way; a character without a key is
  // kept. Throws ConfigError if an index in the table is out of range.
  std::string replace(std::string_view text) const;

 private:
  // Returns the replacement of the shortest key with which `piece` begins; nullopt if there is
  // none.
  std::optional<std::string_view> replacement_of(std::string_view piece) const;
  // Appends the replacement of one grapheme cluster, or of its characters, to `result`.
  void append_grapheme(std::string_view grapheme, std::string& result) const;

  std::vector<uint32_t> units_;  // nodes of the double-array trie, as encoded in the file
  std::string replacements_;     // zero-terminated strings; leaves of the trie have their offsets
};

}  // namespace colossal::text
