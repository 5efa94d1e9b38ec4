// GPT-2's alphabet: a printable character for each byte, so that a vocabulary of byte strings can
// be written as JSON. Printable Latin-1 bytes stand for themselves, the others for U+0100 upwards.
// Source: Radford et al., "Language Models are Unsupervised Multitask Learners"; encoder.py there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace colossal::text {

char32_t character_of_byte(uint8_t byte);

// Bytes, each written as its character; result is UTF-8.
std::string to_byte_alphabet(std::string_view bytes);
// The bytes that the characters of `text` (valid UTF-8) stand for; nothing where one is not of the
// alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view text);

}  // namespace colossal::text
