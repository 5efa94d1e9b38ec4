// Reads the parts of a tokenizer.json around its model: normalizer, pre-tokenizer,
// post-processor and decoder.
#pragma once

#include "colossal/text/json_node.h"
#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// Fills in what those parts say, and whether tokens are in GPT-2's byte alphabet: the pre-tokenizer
// decides. root: the whole file, of which definition.model has been read. Throws ConfigError naming
// what is not supported.
void read_pipeline(const JsonNode& root, TokenizerDefinition& definition);

}  // namespace colossal::text
