// Turns JSON schemas into grammar rules, with which a model is made to answer in JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// Adds rules for the JSON texts that are valid under a schema and returns the symbol that matches
// them. Supports
// - type, enum, const
// - properties and required: an object has only the listed properties, in the schema's order
// - items, prefixItems (a list then has exactly these items), minItems, maxItems
// - minLength, maxLength, or instead of them pattern
// - anyOf, oneOf (treated as anyOf), allOf with one entry
// - $ref within the schema
//
// Ignores keywords that only describe values, such as "title", and "format". If the schema
// of an object has no "properties", but "additionalProperties" with a schema, all values in the
// object must be valid under the latter. Otherwise ignores "additionalProperties". Throws
// GrammarError for any other keyword (naming it), for a keyword with an invalid value, or if the
// schema is longer than 64 KiB or nested deeper than 32 levels.
Symbol add_json_schema(Grammar& grammar, const nlohmann::ordered_json& schema);

// Adds rules for any JSON object and returns their symbol.
Symbol add_json_object(Grammar& grammar);

}  // namespace colossal::text::grammar
