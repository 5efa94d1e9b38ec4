#pragma once

#include <nlohmann/json_fwd.hpp>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// Adds a symbol for the JSON texts that fit a schema: type, enum, const, properties and required
// (written in the order of the schema, none beside them), items, prefixItems, minItems, maxItems,
// minLength, maxLength, pattern, anyOf, oneOf (as anyOf), allOf of one, $ref within the schema.
// Throws GrammarError naming what else restricts values; what only describes them is left out.
Symbol add_json_schema(Grammar& grammar, const nlohmann::ordered_json& schema);

// Adds a symbol for any JSON object.
Symbol add_json_object(Grammar& grammar);

}  // namespace colossal::text::grammar
