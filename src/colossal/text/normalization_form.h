// Unicode normalization forms, with the same results as the `tokenizers` library.
#pragma once

#include <string>
#include <string_view>

namespace colossal::text {

// NFKC and NFKD also replace compatibility characters (a ligature becomes its letters).
enum class NormalizationForm { nfc, nfd, nfkc, nfkd };

// text: valid UTF-8, as is the result.
std::string to_normalization_form(std::string_view text, NormalizationForm form);

}  // namespace colossal::text
