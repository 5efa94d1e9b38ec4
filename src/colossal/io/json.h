// JSON from files that may come from anywhere: a key twice in an object, a NUL byte, nesting deeper
// than 64 and text that is not UTF-8 are refused, where a plain parser lets the first two pass.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace colossal::io {

// Throws IoError "SOURCE: reason".
nlohmann::json parse_json(std::string_view text, const std::string& source);

nlohmann::json read_json(const std::filesystem::path& path, int64_t limit = int64_t{32} << 20);

// Text of unknown origin for a message: in quotes, control characters escaped, cut to 80 bytes.
std::string quote_text(std::string_view text);
// The same for any value; strings as quote_text() shows them.
std::string show_value(const nlohmann::json& value);

}  // namespace colossal::io
