// Does with strings what Python does: its str methods, and how it writes values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::text::jinja {

// All text is valid UTF-8; positions and lengths count characters.
std::vector<std::string> characters_of(std::string_view text);
int64_t length_of(std::string_view text);
std::string_view first_characters(std::string_view text, int64_t count);  // all if it is shorter

// Bytes of the first place at or after `from`, or of the last, where `wanted` stands; npos: none.
// In time of the two lengths' sum, whatever the texts.
size_t find_text(std::string_view text, std::string_view wanted, size_t from = 0);
size_t find_last(std::string_view text, std::string_view wanted);

bool is_python_space(char32_t character);  // str.isspace
// Without white space, or without any of these characters, at its ends.
std::string_view strip_left(std::string_view text, std::optional<std::string_view> what = {});
std::string_view strip_right(std::string_view text, std::optional<std::string_view> what = {});
std::string_view strip_both(std::string_view text, std::optional<std::string_view> what = {});

// Splits a text at most `max_splits` times, from the left or the right; below 0: any number. No
// separator: at white space, without empty parts.
std::vector<std::string> split_text(std::string_view text,
                                    std::optional<std::string_view> separator, int64_t max_splits,
                                    bool from_right = false);
std::vector<std::string> split_into_lines(std::string_view text, bool keep_ends);

// Replaces at most `max_count` occurrences; below 0: all. Is cut short, but longer than
// `most_bytes`, where the text would be so.
std::string replace_text(std::string_view text, std::string_view from, std::string_view to,
                         int64_t max_count, size_t most_bytes);

// Letter by letter, as Unicode's simple mappings have it, but for "ß", which becomes "SS".
std::string upper_case(std::string_view text);
std::string lower_case(std::string_view text);
std::string capitalized(std::string_view text);  // str.capitalize
std::string title_case(std::string_view text);   // str.title

// Whether there are characters, and all of them are such.
enum class CharacterClass { letters, digits, letters_or_digits, spaces };
bool all_are(std::string_view text, CharacterClass wanted);
// Whether there are cased letters, and all are of this case.
bool has_case(std::string_view text, bool upper);

std::string python_float(double value);                             // repr(1e16) is "1e+16"
std::string python_quoted(std::string_view text);                   // repr of a str
std::string json_quoted(std::string_view text, bool ensure_ascii);  // as json.dumps has it

}  // namespace colossal::text::jinja
