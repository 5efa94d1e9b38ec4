// Base64 (RFC 4648): bytes as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace colossal {

// Returns the bytes as text, padded with "=".
std::string encode_base64(std::string_view bytes);

// Returns the bytes; nullopt if the text is not base64. The padding "=" at its end may be missing.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace colossal
