// Unicode normalization form C, as the `tokenizers` library makes it.
#pragma once

#include <string>
#include <string_view>

namespace colossal::text {

// text: valid UTF-8.
std::string compose(std::string_view text);

}  // namespace colossal::text
