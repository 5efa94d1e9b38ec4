// Parses JSON from untrusted files. Also rejects duplicate keys in an object and NUL bytes, which a
// plain parser accepts, as well as nesting deeper than 64 and text that is not UTF-8.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace colossal::io {

// Throws IoError "SOURCE: reason".
nlohmann::json parse_json(std::string_view text, const std::string& source);

// limit: maximum file size in bytes.
nlohmann::json read_json(const std::filesystem::path& path, int64_t limit = int64_t{32} << 20);

// Formats untrusted text for a message: quoted, control characters escaped, truncated to 80 bytes.
std::string quote_text(std::string_view text);
// Like quote_text(), for any JSON value.
std::string show_value(const nlohmann::json& value);

}  // namespace colossal::io
