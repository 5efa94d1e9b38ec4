// Caches the tokens of words seen lately, since a text has few different words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace colossal::text {

// Has a fixed size (1 MiB): each word has one place, which a newer word takes over. Longer words,
// and words of many tokens, are not kept. One thread at a time may use it.
class WordCache {
 public:
  WordCache();

  // Where the word's tokens are or would be, good until the next call.
  struct Place;
  Place& place_of(std::string_view word);

  // Whether the place holds this word; appends its tokens if so.
  static bool read(const Place& place, std::string_view word, std::vector<int32_t>& tokens);
  static void write(Place& place, std::string_view word, std::span<const int32_t> tokens);

  static constexpr size_t kMaxBytes = 22;
  static constexpr size_t kMaxTokens = 10;

  struct alignas(64) Place {  // a cache line
    std::array<int32_t, kMaxTokens> tokens;
    std::array<char, kMaxBytes> bytes;
    uint8_t num_bytes = 0;  // 0: free
    uint8_t num_tokens = 0;
  };

 private:
  std::vector<Place> places_;
};

}  // namespace colossal::text
