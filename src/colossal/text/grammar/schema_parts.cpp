#include "colossal/text/grammar/schema_parts.h"

#include <fmt/format.h>

#include <algorithm>

namespace colossal::text::grammar {
namespace {

using Json = SchemaJson;

constexpr size_t kMaxAlternatives = 1000;
constexpr int kMaxExclusionDepth = 8;

// Keywords that place conditions, all of them supported.
const std::set<std::string_view> kConditions{"type",
                                             "enum",
                                             "const",
                                             "minimum",
                                             "maximum",
                                             "exclusiveMinimum",
                                             "exclusiveMaximum",
                                             "multipleOf",
                                             "minLength",
                                             "maxLength",
                                             "pattern",
                                             "format",
                                             "items",
                                             "prefixItems",
                                             "additionalItems",
                                             "minItems",
                                             "maxItems",
                                             "uniqueItems",
                                             "properties",
                                             "required",
                                             "additionalProperties",
                                             "patternProperties",
                                             "propertyNames",
                                             "minProperties",
                                             "maxProperties",
                                             "$ref",
                                             "allOf",
                                             "anyOf",
                                             "oneOf"};
// Keywords that place none.
const std::set<std::string_view> kAnnotations{"title",
                                              "description",
                                              "default",
                                              "examples",
                                              "example",
                                              "$schema",
                                              "$id",
                                              "$defs",
                                              "definitions",
                                              "$comment",
                                              "$anchor",
                                              "$vocabulary",
                                              "deprecated",
                                              "readOnly",
                                              "writeOnly",
                                              "strict",
                                              "nullable",
                                              "discriminator",
                                              "xml",
                                              "externalDocs",
                                              "contentEncoding",
                                              "contentMediaType",
                                              "contentSchema",
                                              "contentType",
                                              "id"};

// Returns the text without %XX escapes.
std::string without_escapes(const std::string& path) {
  std::string text;
  for (size_t i = 0; i < path.size(); ++i) {
    const auto is_hex = [&](size_t at) { return at < path.size() && isxdigit(path[at]); };
    if (path[i] == '%' && is_hex(i + 1) && is_hex(i + 2)) {
      text += static_cast<char>(std::stoi(path.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      text += path[i];
    }
  }
  return text;
}

}  // namespace

const Json& SchemaParts::none() {
  static const Json kNone = false;
  return kNone;
}

const Json& SchemaParts::any() {
  static const Json kAny = true;
  return kAny;
}

// Refuses other keywords: ignoring them would allow too many values.
void SchemaParts::check_keywords(const Json& schema) const {
  for (const auto& [keyword, value] : schema.items()) {
    if (kConditions.contains(keyword) || kAnnotations.contains(keyword)) continue;
    if (keyword.starts_with("x-")) continue;
    // A condition without effect.
    if ((keyword == "then" || keyword == "else") && !schema.contains("if")) continue;
    if (keyword == "if" && !schema.contains("then") && !schema.contains("else")) continue;
    if ((keyword == "minContains" || keyword == "maxContains") && !schema.contains("contains")) {
      continue;
    }
    refuse_schema(fmt::format("{:?}, which is not supported", keyword.substr(0, 80)));
  }
}

// Follows "#" or "#/$defs/name".
const Json& SchemaParts::target_of(const Json& schema) const {
  const Json& reference = schema["$ref"];
  const std::string path = reference.is_string() ? reference.get<std::string>() : "";
  if (!path.starts_with('#')) refuse_schema("a \"$ref\" that leads out of it");
  try {
    return root_.at(Json::json_pointer(without_escapes(path.substr(1))));
  } catch (const Json::exception&) {
    refuse_schema(fmt::format("a \"$ref\" to {}, which does not exist", path.substr(0, 80)));
  }
}

std::vector<Conditions> SchemaParts::alternatives_of(const Schemas& schemas) {
  std::vector<Alternative> alternatives(1);
  for (const Json* schema : schemas) alternatives = expand(*schema, std::move(alternatives));
  std::vector<Conditions> all;
  for (const Alternative& alternative : alternatives) all.push_back(conditions_of(alternative));
  return all;
}

Conditions SchemaParts::conditions_of(const Alternative& alternative) const {
  Conditions conditions;
  for (const Json* part : alternative.parts) conditions.add(*part);
  conditions.required.insert(conditions.required.end(), alternative.required.begin(),
                             alternative.required.end());
  // A schema with properties is meant for objects, even if it does not say so.
  const bool has_type = std::ranges::any_of(
      alternative.parts, [](const Json* part) { return part->contains("type"); });
  const bool has_properties = std::ranges::any_of(
      alternative.parts, [](const Json* part) { return part->contains("properties"); });
  if (has_properties && !has_type && !conditions.values) conditions.types &= kObject;
  return conditions;
}

auto SchemaParts::expand(const Json& schema, std::vector<Alternative> before)
    -> std::vector<Alternative> {
  if (schema.is_boolean()) return schema.get<bool>() ? before : std::vector<Alternative>();
  if (!schema.is_object()) refuse_schema("a part that is not an object");
  if (!open_.insert(&schema).second) {
    if (compared_ > 0) throw IsOpen();
    refuse_schema("a \"$ref\" that leads to itself without an object or a list between");
  }
  check_keywords(schema);
  for (Alternative& alternative : before) alternative.parts.push_back(&schema);
  if (schema.contains("$ref")) before = expand(target_of(schema), std::move(before));
  for (const char* name : {"allOf", "anyOf", "oneOf"}) {
    if (!schema.contains(name)) continue;
    const Json& list = schema[name];
    if (!list.is_array() || list.empty()) refuse_schema(fmt::format("an empty \"{}\"", name));
    if (name == std::string_view("allOf")) {
      for (const Json& one : list) before = expand(one, std::move(before));
    } else {
      before =
          name == std::string_view("anyOf") ? expand_any(list, before) : expand_one(list, before);
    }
    if (before.size() > kMaxAlternatives) {
      refuse_schema(fmt::format("more than {} alternatives that combine", kMaxAlternatives));
    }
  }
  open_.erase(&schema);
  return before;
}

auto SchemaParts::expand_any(const Json& list, const std::vector<Alternative>& before)
    -> std::vector<Alternative> {
  std::vector<Alternative> all;
  for (const Json& one : list) {
    std::vector<Alternative> more = expand(one, before);
    all.insert(all.end(), more.begin(), more.end());
    if (all.size() > kMaxAlternatives) break;
  }
  return all;
}

// Each alternative must exclude the others.
auto SchemaParts::expand_one(const Json& list, const std::vector<Alternative>& before)
    -> std::vector<Alternative> {
  std::vector<std::vector<Alternative>> others;  // each alternative by itself
  for (const Json& one : list) others.push_back(expand(one, {Alternative()}));
  std::vector<Alternative> all;
  for (size_t i = 0; i < list.size(); ++i) {
    for (Alternative& alternative : expand(list[i], before)) {
      Conditions written = conditions_of(alternative);
      for (size_t j = 0; j < list.size(); ++j) {
        if (j == i) continue;
        for (const Alternative& other : others[j]) {
          if (excludes(written, conditions_of(other), 0)) continue;
          refuse_schema(fmt::format(
              "a \"oneOf\" whose alternatives {} and {} may both fit a value, which is "
              "not supported; use \"anyOf\", or a required property with a \"const\" of "
              "its own in each",
              i + 1, j + 1));
        }
      }
      alternative.required = written.required;
      all.push_back(std::move(alternative));
    }
  }
  return all;
}

bool SchemaParts::excludes(Conditions& written, const Conditions& other, int depth) {
  if (depth > kMaxExclusionDepth) return false;
  if (written.values) {
    return std::ranges::none_of(*written.values, [&](const Json& value) {
      return std::ranges::all_of(other.parts,
                                 [&](const Json* part) { return fits_part(value, *part); });
    });
  }
  const ValueTypes both = written.types & other.types;
  if (both == 0) return true;
  if (other.values) {
    return std::ranges::none_of(*other.values,
                                [&](const Json& value) { return (type_of(value) & both) != 0; });
  }
  const auto is_apart = [](int64_t minimum, int64_t maximum) {
    return maximum >= 0 && minimum > maximum;
  };
  if ((both & (kNull | kBoolean)) != 0) return false;
  if ((both & (kInteger | kFraction)) != 0 && !written.numbers.exclude(other.numbers)) return false;
  if ((both & kString) != 0 && !is_apart(written.strings.minimum, other.strings.maximum) &&
      !is_apart(other.strings.minimum, written.strings.maximum)) {
    return false;
  }
  if ((both & kArray) != 0 && !is_apart(written.min_items, other.max_items) &&
      !is_apart(other.min_items, written.max_items)) {
    return false;
  }
  return (both & kObject) == 0 || excludes_as_object(written, other, depth);
}

// A property tells objects apart: one that the other must have and this one never has, or one whose
// values differ.
bool SchemaParts::excludes_as_object(Conditions& written, const Conditions& other, int depth) {
  const std::vector<std::string> listed = written.listed_properties();
  const bool is_open = written.are_open();
  for (const std::string& name : other.required) {
    if (!is_open && std::ranges::find(listed, name) == listed.end()) return true;
  }
  for (const std::string& name : listed) {
    if (!differ(written.schemas_of_property(name), other.schemas_of_property(name), depth))
      continue;
    // The property must be written; a schema that leaves it out would fit both.
    if (std::ranges::find(written.required, name) == written.required.end()) {
      written.required.push_back(name);
    }
    return true;
  }
  return false;
}

bool SchemaParts::differ(const Schemas& written, const Schemas& others, int depth) {
  const std::set<const Json*> open = open_;
  ++compared_;
  bool differ = false;
  try {
    std::vector<Conditions> here = alternatives_of(written), there = alternatives_of(others);
    differ = std::ranges::all_of(here, [&](Conditions& mine) {
      const std::vector<std::string> before = mine.required;
      const bool apart = std::ranges::all_of(
          there, [&](const Conditions& theirs) { return excludes(mine, theirs, depth + 1); });
      return apart && mine.required == before;
    });
  } catch (const IsOpen&) {  // a schema that refers to itself: nothing is known of it yet
    open_ = open;
  }
  --compared_;
  return differ;
}

bool SchemaParts::fits(const Json& value, const Json& schema) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (!schema.is_object()) refuse_schema("a part that is not an object");
  check_keywords(schema);
  if (schema.contains("$ref") && !fits(value, target_of(schema))) return false;
  const auto count = [&](const char* name) {
    return std::ranges::count_if(schema[name], [&](const Json& one) { return fits(value, one); });
  };
  if (schema.contains("allOf") && count("allOf") < std::ssize(schema["allOf"])) return false;
  if (schema.contains("anyOf") && count("anyOf") == 0) return false;
  if (schema.contains("oneOf") && count("oneOf") != 1) return false;
  return fits_part(value, schema);
}

bool SchemaParts::fits_part(const Json& value, const Json& schema) {
  Conditions conditions;
  conditions.add(schema);
  const ValueType type = type_of(value);
  if ((conditions.types & type) == 0) return false;
  if (conditions.values &&
      std::ranges::find(*conditions.values, value) == conditions.values->end()) {
    return false;
  }
  const auto is_within = [&](size_t count, int64_t minimum, int64_t maximum) {
    const auto size = static_cast<int64_t>(count);
    return size >= minimum && (maximum < 0 || size <= maximum);
  };
  switch (type) {
    case kInteger:
    case kFraction:
      return conditions.numbers.admit(value);
    case kString:
      return conditions.strings.admit(value.get_ref<const std::string&>());
    case kArray: {
      if (!is_within(value.size(), conditions.min_items, conditions.max_items)) return false;
      for (size_t i = 0; i < value.size(); ++i) {
        for (const Json* item : conditions.schemas_of_item(i)) {
          if (!fits(value[i], *item)) return false;
        }
        const bool is_repeated =
            std::find(value.begin(), value.begin() + static_cast<std::ptrdiff_t>(i), value[i]) !=
            value.begin() + static_cast<std::ptrdiff_t>(i);
        if (conditions.unique_items && is_repeated) return false;
      }
      return true;
    }
    case kObject:
      return is_within(value.size(), conditions.min_properties, conditions.max_properties) &&
             fits_object(value, conditions);
    default:
      return true;
  }
}

bool SchemaParts::fits_object(const Json& value, const Conditions& conditions) {
  for (const std::string& name : conditions.required) {
    if (!value.contains(name)) return false;
  }
  for (const auto& [name, property] : value.items()) {
    for (const Json* schema : conditions.schemas_of_property(name)) {
      if (!fits(property, *schema)) return false;
    }
    for (const Json* part : conditions.parts) {
      if (part->contains("propertyNames") && !fits(Json(name), (*part)["propertyNames"])) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace colossal::text::grammar
