// Tokens that only the files beside a tokenizer.json define: tokenizer_config.json,
// special_tokens_map.json and added_tokens.json. Fine-tunes that were saved with a Python tokenizer
// often have their chat markers and the end of a text there alone.
#pragma once

#include <filesystem>

#include "colossal/text/tokenizer/tokenizer_definition.h"
#include "colossal/text/tokenizer/tokenizer_files.h"

namespace colossal::text {

// Adds to `definition` what transformers' AutoTokenizer adds to the tokenizer.json: the tokens of
// added_tokens_decoder or, if tokenizer_config.json has no such field, of added_tokens.json; then
// the named tokens (bos_token, eos_token, ..., also those of other names that end in "_token") and
// the extra special tokens. A token of model.vocab keeps its number; others get the next free
// numbers. Returns the settings of tokenizer_config.json with those of special_tokens_map.json,
// which count only if there is no added_tokens_decoder. folder: of the files, for error messages.
// Throws ConfigError if a file is invalid, or gives a token another number than it gets.
TokenizerConfig add_companion_tokens(const TokenizerFiles& files,
                                     const std::filesystem::path& folder,
                                     TokenizerDefinition& definition);

}  // namespace colossal::text
