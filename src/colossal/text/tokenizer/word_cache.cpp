#include "colossal/text/tokenizer/word_cache.h"

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace colossal::text {
namespace {

constexpr size_t kNumPlaces = size_t{1} << 14;

}  // namespace

WordCache::WordCache() : places_(kNumPlaces) {
  static_assert(sizeof(Place) == 64);
}

WordCache::Place& WordCache::place_of(std::string_view word) {
  return places_[XXH3_64bits(word.data(), word.size()) % kNumPlaces];
}

bool WordCache::read(const Place& place, std::string_view word, std::vector<int32_t>& tokens) {
  if (place.num_bytes != word.size() || word.empty()) return false;
  if (std::memcmp(place.bytes.data(), word.data(), word.size()) != 0) return false;
  tokens.insert(tokens.end(), place.tokens.begin(), place.tokens.begin() + place.num_tokens);
  return true;
}

void WordCache::write(Place& place, std::string_view word, std::span<const int32_t> tokens) {
  if (word.size() > kMaxBytes || tokens.size() > kMaxTokens) return;
  std::ranges::copy(word, place.bytes.begin());
  std::ranges::copy(tokens, place.tokens.begin());
  place.num_bytes = static_cast<uint8_t>(word.size());
  place.num_tokens = static_cast<uint8_t>(tokens.size());
}

}  // namespace colossal::text
