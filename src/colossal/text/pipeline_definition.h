// Reads the parts of a tokenizer.json around its model: normalizer, pre-tokenizer,
// post-processor and decoder.
#pragma once

#include "colossal/text/json_node.h"
#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// Fills in the definition's fields for these four parts, and sets `byte_level` if a pre-tokenizer
// step is ByteLevel. root: the whole file; definition.model must already be read. Throws
// ConfigError naming an unsupported setting.
void read_pipeline(const JsonNode& root, TokenizerDefinition& definition);

}  // namespace colossal::text
