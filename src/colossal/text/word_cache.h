// Caches the tokens of recently seen words: most words of a text repeat.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace colossal::text {

// A direct-mapped cache of fixed size (1 MiB): a new word overwrites the word in its place.
// write() ignores words of more than kMaxBytes bytes or kMaxTokens tokens. Not thread-safe.
class WordCache {
 public:
  WordCache();

  // Returns the place to which `word` maps; this place may hold another word.
  struct Place;
  Place& place_of(std::string_view word);

  // If the place holds `word`, appends the word's tokens and returns true.
  static bool read(const Place& place, std::string_view word, std::vector<int32_t>& tokens);
  // Stores a word and its tokens in the word's place.
  static void write(Place& place, std::string_view word, std::span<const int32_t> tokens);

  static constexpr size_t kMaxBytes = 22;
  static constexpr size_t kMaxTokens = 10;

  struct alignas(64) Place {  // a cache line
    std::array<int32_t, kMaxTokens> tokens;
    std::array<char, kMaxBytes> bytes;
    uint8_t num_bytes = 0;  // 0: empty
    uint8_t num_tokens = 0;
  };

 private:
  std::vector<Place> places_;
};

}  // namespace colossal::text
