// Reads the parts of a tokenizer.json around its model: normalizer, pre-tokenizer,
// post-processor and decoder.
#pragma once

#include "colossal/text/json_node.h"
#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// Fills in the fields of these parts, and `byte_level`: true if the pre-tokenizer is ByteLevel.
// root: the whole file; definition.model must already be read. Throws ConfigError naming an
// unsupported setting.
void read_pipeline(const JsonNode& root, TokenizerDefinition& definition);

}  // namespace colossal::text
