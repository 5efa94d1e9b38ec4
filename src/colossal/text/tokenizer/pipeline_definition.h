// Reads the parts of a tokenizer.json other than the model: normalizer, pre-tokenizer,
// post-processor and decoder. Called by read_tokenizer_definition().
#pragma once

#include "colossal/text/tokenizer/json_node.h"
#include "colossal/text/tokenizer/tokenizer_definition.h"

namespace colossal::text {

// Sets the fields of `definition` for these four parts: normalizer, pre_tokenizer, before_text and
// after_text (from the post-processor), decoder. Also sets byte_level if a pre-tokenizer step is
// ByteLevel. root: the root of the tokenizer.json. The caller must have set definition.model.
// Throws ConfigError naming an unsupported setting.
void read_pipeline(const JsonNode& root, TokenizerDefinition& definition);

}  // namespace colossal::text
