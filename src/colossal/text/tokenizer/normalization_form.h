// Unicode normalization forms (Unicode Standard Annex 15), with the results of the `tokenizers`
// library. The library knows Unicode 10: characters added later stay unchanged.
#pragma once

#include <string>
#include <string_view>

namespace colossal::text {

// nfc and nfkc compose characters (e + acute accent becomes one character); nfd and nfkd decompose
// them. nfkc and nfkd also replace compatibility characters: a ligature becomes its letters.
enum class NormalizationForm { nfc, nfd, nfkc, nfkd };

// Returns `text` in the given form. The text must be valid UTF-8; the result is valid UTF-8.
std::string to_normalization_form(std::string_view text, NormalizationForm form);

}  // namespace colossal::text
