// Parses JSON from untrusted files, and formats untrusted text for messages. The parser rejects
// invalid JSON, text that is not UTF-8, and what many parsers accept: duplicate keys in an object,
// NUL bytes, and nesting deeper than 64 levels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace colossal::io {

// Parses `text`. source: where the text comes from, such as a path. Throws IoError with the message
// "SOURCE: reason" if the text is rejected.
nlohmann::json parse_json(std::string_view text, const std::string& source);

// Parses a file. Throws IoError if the file is larger than `limit` bytes, cannot be read, or is
// rejected.
nlohmann::json read_json(const std::filesystem::path& path, int64_t limit = int64_t{32} << 20);

// Returns untrusted text for use in a message: quoted, with control characters escaped, cut after
// 80 bytes.
std::string quote_text(std::string_view text);
// Returns any JSON value for use in a message: a string as by quote_text(), any other value as
// JSON, cut after 80 bytes.
std::string show_value(const nlohmann::json& value);

}  // namespace colossal::io
