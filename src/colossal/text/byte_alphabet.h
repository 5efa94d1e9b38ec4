// GPT-2's byte alphabet: one printable character for each byte, so that JSON can hold a vocabulary
// of byte strings. Printable Latin-1 bytes map to themselves, the others to U+0100 and up. Source:
// Radford et al., "Language Models are Unsupervised Multitask Learners", 2019; encoder.py of its
// code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace colossal::text {

char32_t character_of_byte(uint8_t byte);

// Maps each byte to its character; the result is UTF-8.
std::string to_byte_alphabet(std::string_view bytes);
// Maps the characters of `text` (valid UTF-8) back to bytes; nullopt if a character is not in the
// alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view text);

}  // namespace colossal::text
