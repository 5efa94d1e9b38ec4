#include "colossal/text/tokenizer/charsmap.h"

#include <bit>
#include <cstring>

#include "colossal/base/error.h"
#include "colossal/text/unicode.h"
#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

static_assert(std::endian::native == std::endian::little, "units are read as they lie in the file");

constexpr size_t kMostBytesOfGrapheme = 5;

// The fields of a unit of the double-array trie.
bool has_leaf(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
uint32_t label_of(uint32_t unit) {
  return unit & (1u << 31 | 0xFF);
}
uint32_t offset_of(uint32_t unit) {
  return (unit >> 10) << ((unit & 1u << 9) >> 6);
}
uint32_t value_of(uint32_t unit) {
  return unit & ~(1u << 31);
}

[[noreturn]] void raise_broken(std::string_view what) {
  throw ConfigError(fmt::format("the normalizer's precompiled_charsmap is broken: {}", what));
}

// Whether the first character is ASCII and a grapheme by itself, because no character or another
// ASCII character follows. Only "\r
// " is one grapheme of two ASCII characters.
bool begins_with_plain_ascii(std::string_view text) {
  const auto is_ascii_byte = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  return is_ascii_byte(text[0]) &&
         (text.size() == 1 || (is_ascii_byte(text[1]) && text[0] != '\r'));
}

}  // namespace

Charsmap::Charsmap(std::string_view table) {
  uint32_t num_bytes = 0;
  if (table.size() < sizeof(num_bytes)) raise_broken("it is empty");
  std::memcpy(&num_bytes, table.data(), sizeof(num_bytes));
  table.remove_prefix(sizeof(num_bytes));
  if (num_bytes > table.size() || num_bytes % sizeof(uint32_t) != 0 || num_bytes == 0) {
    raise_broken(fmt::format("its trie has {} bytes, of {}", num_bytes, table.size()));
  }
  units_.resize(num_bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), table.data(), num_bytes);
  replacements_ = table.substr(num_bytes);
  if (valid_utf8_length(replacements_) != replacements_.size()) raise_broken("it is not UTF-8");
}

// Returns the replacement of the shortest key that is a prefix of the piece.
std::optional<std::string_view> Charsmap::replacement_of(std::string_view piece) const {
  size_t node = offset_of(units_[0]);
  for (char c : piece) {
    const auto byte = static_cast<uint8_t>(c);
    node ^= byte;
    if (byte == 0 || node >= units_.size()) return std::nullopt;
    const uint32_t unit = units_[node];
    if (label_of(unit) != byte) return std::nullopt;
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size()) raise_broken("its trie leads beyond its end");
    const size_t begin = value_of(units_[node]);
    if (begin > replacements_.size() ||
        (begin < replacements_.size() && (replacements_[begin] & 0xC0) == 0x80)) {
      raise_broken("its trie leads to no replacement");
    }
    const std::string_view rest = std::string_view(replacements_).substr(begin);
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

void Charsmap::append_grapheme(std::string_view grapheme, std::string& result) const {
  if (grapheme.size() <= kMostBytesOfGrapheme) {
    if (const auto replacement = replacement_of(grapheme)) return void(result += *replacement);
  }
  for (size_t position = 0; position < grapheme.size();) {
    const size_t begin = position;
    next_code_point(grapheme, position);
    const std::string_view character = grapheme.substr(begin, position - begin);
    result += replacement_of(character).value_or(character);
  }
}

std::string Charsmap::replace(std::string_view text) const {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t length = begins_with_plain_ascii(text) ? 1 : grapheme_length(text);
    append_grapheme(text.substr(0, length), result);
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace colossal::text
