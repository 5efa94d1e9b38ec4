#pragma once

#include <nlohmann/json_fwd.hpp>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// Adds rules for the JSON texts that are valid under a schema and returns their symbol. Supports
// type, enum, const, properties and required, items, prefixItems, minItems, maxItems, minLength,
// maxLength, pattern, anyOf, oneOf (treated as anyOf), allOf with one entry, and $ref within the
// schema. If a schema has `properties`, an object has only these, in the schema's order. Ignores
// keywords that only describe values ("title"). Throws GrammarError naming any other keyword.
Symbol add_json_schema(Grammar& grammar, const nlohmann::ordered_json& schema);

// Adds rules for any JSON object and returns their symbol.
Symbol add_json_object(Grammar& grammar);

}  // namespace colossal::text::grammar
