// The text functions of templates: Python's str methods, and Python's formatting of numbers and
// strings. All texts must be valid UTF-8; results are valid UTF-8. A character is a Unicode code
// point.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::text::jinja {

// Returns the characters of `text`.
std::vector<std::string> characters_of(std::string_view text);
// Returns the number of characters of `text`.
int64_t length_of(std::string_view text);
// Returns the first `count` characters of `text`; all if `text` is shorter.
std::string_view first_characters(std::string_view text, int64_t count);

// Returns the byte position of the first occurrence of `wanted` at byte `from` or later; npos if
// there is none. Takes time linear in the lengths of both texts.
size_t find_text(std::string_view text, std::string_view wanted, size_t from = 0);
// Returns the byte position of the last occurrence of `wanted`; npos if there is none.
size_t find_last(std::string_view text, std::string_view wanted);

// Returns str.isspace() of one character.
bool is_python_space(char32_t character);
// Return `text` without the characters at one end or both ends that occur in `what`. what: a set of
// characters; nullopt: white space.
std::string_view strip_left(std::string_view text, std::optional<std::string_view> what = {});
std::string_view strip_right(std::string_view text, std::optional<std::string_view> what = {});
std::string_view strip_both(std::string_view text, std::optional<std::string_view> what = {});

// Returns the parts of `text` between occurrences of `separator`, from left to right, like
// str.split(). separator: not empty; nullopt: splits at runs of white space and leaves out empty
// parts. max_splits: maximum number of splits; negative: no limit. from_right: split at the last
// occurrences if max_splits limits the splits, like str.rsplit().
std::vector<std::string> split_text(std::string_view text,
                                    std::optional<std::string_view> separator, int64_t max_splits,
                                    bool from_right = false);
// Returns the lines of `text`, like str.splitlines(). keep_ends: lines include their line breaks.
std::vector<std::string> split_into_lines(std::string_view text, bool keep_ends);

// Returns `text` with occurrences of `from` replaced by `to`, like str.replace(): an empty `from`
// occurs before each character and at the end. max_count: maximum number of replacements, from the
// left; negative: no limit. Stops replacing once the result has more than `max_bytes` bytes: the
// rest of `text` then follows unchanged. The caller must refuse results of more than `max_bytes`
// bytes, which may be wrong.
std::string replace_text(std::string_view text, std::string_view from, std::string_view to,
                         int64_t max_count, size_t max_bytes);

// Return `text` with each character mapped to its upper or lower case. Mappings are Unicode's
// simple ones, except that the upper case of "ß" is "SS" and the lower case of U+0130 is "i" and
// U+0307.
std::string upper_case(std::string_view text);
std::string lower_case(std::string_view text);
// Returns str.capitalize(): the first character in title case, all others in lower case.
std::string capitalized(std::string_view text);
// Returns str.title(): the first letter of each word in title case, all others in lower case.
std::string title_case(std::string_view text);

// Sets of characters for all_are().
enum class CharacterClass { letters, digits, letters_or_digits, spaces };
// Returns true if `text` is not empty and has only characters of the class `wanted`.
bool all_are(std::string_view text, CharacterClass wanted);
// Returns true if `text` has cased letters, and all of them are in upper case (if `upper`) or in
// lower case (otherwise).
bool has_case(std::string_view text, bool upper);

// Returns repr() of a float, such as "1e+16".
std::string python_float(double value);
// Returns repr() of a str: quoted, with escapes.
std::string python_quoted(std::string_view text);
// Returns json.dumps() of a str. ensure_ascii: escape all characters outside of ASCII.
std::string json_quoted(std::string_view text, bool ensure_ascii);

}  // namespace colossal::text::jinja
