#include "colossal/text/grammar/grammar.h"

#include <algorithm>
#include <array>

#include "colossal/text/utf8.h"

namespace colossal::text::grammar {
namespace {

constexpr size_t kMaxSymbols = 500'000;
constexpr int64_t kMaxRepetitions = 100'000;

Symbol byte_range(unsigned char first, unsigned char last) {
  Symbol symbol;
  for (int byte = first; byte <= last; ++byte) symbol.bytes.set(static_cast<size_t>(byte));
  return symbol;
}

std::string utf8_of(char32_t character) {
  std::string bytes;
  append_utf8(bytes, character);
  return bytes;
}

// Adds the UTF-8 sequences of the characters [first, last], which have equally many bytes. Splits
// the range into parts in which the bytes vary independently of each other.
void add_byte_sequences(char32_t first, char32_t last, std::vector<Sequence>& sequences) {
  const std::string low = utf8_of(first), high = utf8_of(last);
  for (size_t bits = 6; bits < 6 * low.size(); bits += 6) {
    const char32_t mask = (char32_t{1} << bits) - 1;
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      add_byte_sequences(first, first | mask, sequences);
      return add_byte_sequences((first | mask) + 1, last, sequences);
    }
    if ((last & mask) != mask) {
      add_byte_sequences(first, (last & ~mask) - 1, sequences);
      return add_byte_sequences(last & ~mask, last, sequences);
    }
  }
  Sequence sequence;
  for (size_t i = 0; i < low.size(); ++i) {
    sequence.push_back(
        byte_range(static_cast<unsigned char>(low[i]), static_cast<unsigned char>(high[i])));
  }
  sequences.push_back(std::move(sequence));
}

// Returns the ranges in order, without overlap, and without surrogates, which are no characters.
std::vector<CharacterRange> normalized(std::vector<CharacterRange> ranges) {
  std::ranges::sort(ranges, {}, &CharacterRange::first);
  std::vector<CharacterRange> merged;
  for (const CharacterRange& range : ranges) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  std::vector<CharacterRange> characters;
  for (const CharacterRange& range : merged) {
    if (range.first < 0xD800)
      characters.push_back({range.first, std::min<char32_t>(range.last, 0xD7FF)});
    if (range.last > 0xDFFF)
      characters.push_back({std::max<char32_t>(range.first, 0xE000), range.last});
  }
  return characters;
}

}  // namespace

std::vector<CharacterRange> complement(std::vector<CharacterRange> ranges) {
  std::vector<CharacterRange> rest;
  char32_t next = 0;
  for (const CharacterRange& range : normalized(std::move(ranges))) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= 0x10FFFF) rest.push_back({next, 0x10FFFF});
  return rest;
}

void Grammar::count_symbols(size_t count) {
  num_symbols_ += count;
  if (num_symbols_ > kMaxSymbols) {
    throw GrammarError("the expression or schema is too large: nested repetitions multiply");
  }
}

void Grammar::add_alternative(int32_t rule, Sequence sequence) {
  count_symbols(sequence.size() + 1);
  rules_[static_cast<size_t>(rule)].push_back(std::move(sequence));
}

Symbol Grammar::add_anonymous_rule(std::vector<Sequence> alternatives) {
  const int32_t rule = add_rule();
  for (Sequence& sequence : alternatives) add_alternative(rule, std::move(sequence));
  return {.rule = rule};
}

Sequence Grammar::literal(std::string_view text) {
  Sequence sequence;
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    sequence.push_back(byte_range(value, value));
  }
  return sequence;
}

Symbol Grammar::character(const std::vector<CharacterRange>& ranges) {
  static constexpr std::array<CharacterRange, 4> kLengths{
      {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, 0x10FFFF}}};
  Symbol ascii;
  std::vector<Sequence> sequences;
  for (const CharacterRange& range : normalized(ranges)) {
    for (const CharacterRange& length : kLengths) {
      const char32_t first = std::max(range.first, length.first);
      const char32_t last = std::min(range.last, length.last);
      if (first > last) continue;
      if (last <= 0x7F) {
        ascii.bytes |=
            byte_range(static_cast<unsigned char>(first), static_cast<unsigned char>(last)).bytes;
      } else {
        add_byte_sequences(first, last, sequences);
      }
    }
  }
  if (sequences.empty()) return ascii;
  if (ascii.bytes.any()) sequences.push_back({ascii});
  return add_anonymous_rule(std::move(sequences));
}

Sequence Grammar::repeated(const Symbol& symbol, int64_t minimum, int64_t maximum) {
  if (minimum > kMaxRepetitions || maximum > kMaxRepetitions) {
    throw GrammarError(fmt::format("more than {} repetitions", kMaxRepetitions));
  }
  // Counted here, because the caller may join many such sequences in one.
  count_symbols(static_cast<size_t>(minimum));
  Sequence sequence(static_cast<size_t>(minimum), symbol);
  if (maximum < 0) {
    const int32_t any = add_rule();
    add_alternative(any, {});
    add_alternative(any, {symbol, {.rule = any}});
    sequence.push_back({.rule = any});
  } else if (maximum > minimum) {
    Symbol rest = optional(symbol);
    for (int64_t i = minimum + 1; i < maximum; ++i) rest = add_anonymous_rule({{}, {symbol, rest}});
    sequence.push_back(rest);
  }
  return sequence;
}

}  // namespace colossal::text::grammar
