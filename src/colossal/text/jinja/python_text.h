// The behavior of Python's str methods, and Python's formatting of numbers and strings. All texts
// are valid UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::text::jinja {

// These count characters, not bytes.
std::vector<std::string> characters_of(std::string_view text);
int64_t length_of(std::string_view text);
std::string_view first_characters(std::string_view text, int64_t count);  // all if it is shorter

// Returns the byte position of the first occurrence of `wanted` at or after the byte position
// `from`; npos if there is none. Takes linear time in the lengths of both texts.
size_t find_text(std::string_view text, std::string_view wanted, size_t from = 0);
// Returns the byte position of the last occurrence of `wanted`; npos if there is none.
size_t find_last(std::string_view text, std::string_view wanted);

bool is_python_space(char32_t character);  // str.isspace
// Remove white space from one or both ends, or, if `what` is given, the characters that occur in
// it.
std::string_view strip_left(std::string_view text, std::optional<std::string_view> what = {});
std::string_view strip_right(std::string_view text, std::optional<std::string_view> what = {});
std::string_view strip_both(std::string_view text, std::optional<std::string_view> what = {});

// Returns the parts from left to right. Splits at most `max_splits` times, from the right if
// from_right; a negative number means no limit. separator: nullopt splits at runs of white space
// and leaves out empty parts.
std::vector<std::string> split_text(std::string_view text,
                                    std::optional<std::string_view> separator, int64_t max_splits,
                                    bool from_right = false);
// Like str.splitlines. keep_ends: lines include their line breaks.
std::vector<std::string> split_into_lines(std::string_view text, bool keep_ends);

// Replaces at most `max_count` occurrences of `from`; a negative number means all. Stops once the
// result has more than `max_bytes` bytes, so that a caller can refuse it.
std::string replace_text(std::string_view text, std::string_view from, std::string_view to,
                         int64_t max_count, size_t max_bytes);

// Map characters by Unicode's simple case mappings, except "ß", whose upper case is "SS".
std::string upper_case(std::string_view text);
std::string lower_case(std::string_view text);
std::string capitalized(std::string_view text);  // str.capitalize
std::string title_case(std::string_view text);   // str.title

// Returns true if the text is not empty and all characters are in the class.
enum class CharacterClass { letters, digits, letters_or_digits, spaces };
bool all_are(std::string_view text, CharacterClass wanted);
// Returns true if the text has cased letters, and all of them are upper case (if `upper`) or lower
// case.
bool has_case(std::string_view text, bool upper);

std::string python_float(double value);                             // repr(1e16) is "1e+16"
std::string python_quoted(std::string_view text);                   // repr() of a str
std::string json_quoted(std::string_view text, bool ensure_ascii);  // like json.dumps

}  // namespace colossal::text::jinja
