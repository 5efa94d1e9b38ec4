// Turns JSON schemas into grammar rules, with which a model is made to answer in JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// Adds rules for the JSON texts that are valid under a schema and returns the symbol that matches
// them. Supports
// - type, enum, const
// - properties and required: an object has only the listed properties, in the schema's order;
//   those that are not required may be missing; names in "required" must be listed
// - items, minItems, maxItems; prefixItems (a list then has exactly these items, and "items" is
//   ignored)
// - minLength, maxLength, or instead of them pattern
// - anyOf, oneOf (treated as anyOf), allOf with one entry
// - $ref within the schema
//
// The schemas {} and true allow any JSON value. If the schema of an object has "properties",
// "additionalProperties" is ignored. If it has none, the object may have properties of any names,
// even if "additionalProperties" is false, and "required" is ignored; if "additionalProperties" is
// then an object, it is the schema of all values in the object. Also ignores "format", "nullable"
// (it does not allow null), and keywords that only describe values, such as "title". Texts have
// little white space (at most a line end and 20 spaces in one place) and numbers of at most 18
// digits before the point.
//
// Throws GrammarError, which names the keyword, if a keyword is neither supported nor ignored, or
// if a supported keyword is in the wrong place:
// - Beside enum, const, anyOf, oneOf or allOf, only "type" is valid; beside $ref, none.
// - Elsewhere, the keyword must apply to the schema's "type", or to one of the types if "type" is a
//   list: "minLength" requires "string". Without "type", only "properties" is valid, and "required"
//   beside it.
// Throws GrammarError also if a keyword has an invalid value, for the schema false, and if the
// schema is longer than 64 KiB or nested deeper than 32 levels.
Symbol add_json_schema(Grammar& grammar, const nlohmann::ordered_json& schema);

// Adds rules for any JSON object and returns their symbol.
Symbol add_json_object(Grammar& grammar);

}  // namespace colossal::text::grammar
