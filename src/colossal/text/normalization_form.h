// Unicode normalization forms, as the `tokenizers` library makes them.
#pragma once

#include <string>
#include <string_view>

namespace colossal::text {

// K: characters that differ in appearance only become one (a ligature becomes its letters).
enum class NormalizationForm { nfc, nfd, nfkc, nfkd };

// text: valid UTF-8.
std::string to_normalization_form(std::string_view text, NormalizationForm form);

}  // namespace colossal::text
