// Parses JSON from untrusted files. Besides invalid JSON, rejects what common parsers accept:
// duplicate keys in an object, NUL bytes, nesting deeper than 64, and text that is not UTF-8.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace colossal::io {

// source: where the text comes from, for error messages. Throws IoError "SOURCE: reason".
nlohmann::json parse_json(std::string_view text, const std::string& source);

// Parses a file. limit: maximum file size in bytes. Throws IoError.
nlohmann::json read_json(const std::filesystem::path& path, int64_t limit = int64_t{32} << 20);

// Formats untrusted text for a message: quoted, control characters escaped, truncated to 80 bytes.
std::string quote_text(std::string_view text);
// Like quote_text(), for any JSON value.
std::string show_value(const nlohmann::json& value);

}  // namespace colossal::io
