// GPT-2's byte alphabet: one printable character for each of the 256 bytes, so that a JSON file can
// hold tokens that are arbitrary bytes. The bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF map to the
// characters with these code points. The other 68 bytes map, in ascending order, to U+0100 and up:
// the space becomes U+0120. Source: Radford et al., "Language Models are Unsupervised Multitask
// Learners", 2019; encoder.py of the published code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace colossal::text {

// Returns the character of the alphabet for this byte.
char32_t character_of_byte(uint8_t byte);

// Replaces each byte by its character. Returns UTF-8.
std::string to_byte_alphabet(std::string_view bytes);
// The inverse of to_byte_alphabet(). text: valid UTF-8. Returns nullopt if a character of `text` is
// not in the alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view text);

}  // namespace colossal::text
