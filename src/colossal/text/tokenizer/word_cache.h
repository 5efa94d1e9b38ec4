// A cache of the tokens of recently encoded words, for PipelineTokenizer: most words of a text
// repeat.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace colossal::text {

// A direct-mapped cache of fixed size (1 MiB). A word's hash selects its place; writing a word
// overwrites another word in its place. Not thread-safe.
class WordCache {
 public:
  WordCache();

  struct Place;
  // Returns the place of `word`, which may hold another word or none. Valid as long as the cache.
  Place& place_of(std::string_view word);

  // If the place holds `word`, appends the word's tokens to `tokens` and returns true. Otherwise
  // returns false.
  static bool read(const Place& place, std::string_view word, std::vector<int32_t>& tokens);
  // Stores `word` and its tokens in `place`, which must be place_of(word). Stores nothing if the
  // word has more than kMaxBytes bytes or kMaxTokens tokens.
  static void write(Place& place, std::string_view word, std::span<const int32_t> tokens);

  static constexpr size_t kMaxBytes = 22;
  static constexpr size_t kMaxTokens = 10;

  // Has the size of a cache line. Only the first num_bytes bytes and num_tokens tokens are valid.
  struct alignas(64) Place {
    std::array<int32_t, kMaxTokens> tokens;
    std::array<char, kMaxBytes> bytes;  // the word
    uint8_t num_bytes = 0;              // 0: the place is empty
    uint8_t num_tokens = 0;
  };

 private:
  std::vector<Place> places_;
};

}  // namespace colossal::text
