// Turns JSON schemas into grammar rules, with which a model is made to answer in JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// Adds rules for JSON texts that are valid under a schema (JSON Schema 2020-12; the older forms of
// "items" and "exclusiveMinimum", too), and returns the symbol that matches them. Every text is
// valid; not every valid text is matched:
// - Properties come in the order of the schema, then those that only "required" names, then others.
//   Others are written if the schema has no "properties", or says what others may be by
//   "additionalProperties" or "patternProperties".
// - Strings with "pattern" or "format" have no escapes but those that JSON demands; other strings
//   may have any, but no lone surrogates.
// - Numbers with bounds have no exponent, and at most 18 digits (15 with a fraction).
// - White space is limited (JsonRules).
//
// Supports type, enum, const; properties, required, additionalProperties, patternProperties,
// propertyNames, minProperties, maxProperties; items, prefixItems, minItems, maxItems, uniqueItems
// of at most one item or of up to 8 listed values; minLength, maxLength, pattern, format
// (schema_strings.cpp); minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf an
// integer; anyOf, allOf, oneOf whose alternatives exclude each other; $ref within the schema; true
// and false. Conditions beside each other all hold.
//
// Throws GrammarError, which names the keyword, for every other keyword that may restrict values,
// and for invalid ones; if no value is valid; and if the schema is longer than 64 KiB or nested
// deeper than 64 levels of JSON.
Symbol add_json_schema(Grammar& grammar, const nlohmann::ordered_json& schema);

// Adds rules for any JSON object and returns their symbol.
Symbol add_json_object(Grammar& grammar);

}  // namespace colossal::text::grammar
