#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "colossal/text/grammar/regular_expression.h"
#include "colossal/text/grammar/schema_parts.h"

namespace colossal::text::grammar {
namespace {

using Json = SchemaJson;

ValueTypes types_named(const std::string& name) {
  static const std::map<std::string_view, ValueTypes> kTypes{
      {"null", kNull},       {"boolean", kBoolean},
      {"integer", kInteger}, {"number", kInteger | kFraction},
      {"string", kString},   {"array", kArray},
      {"object", kObject}};
  const auto found = kTypes.find(name);
  if (found == kTypes.end()) {
    refuse_schema(fmt::format("the type {:?}, which JSON does not have", name.substr(0, 40)));
  }
  return found->second;
}

ValueTypes read_types(const Json& type) {
  if (type.is_string()) return types_named(type.get<std::string>());
  if (!type.is_array() || type.empty()) {
    refuse_schema("a \"type\" that is neither a name nor a list");
  }
  ValueTypes types = 0;
  for (const Json& one : type) {
    if (!one.is_string()) refuse_schema("a \"type\" that is not a name");
    types |= types_named(one.get<std::string>());
  }
  return types;
}

std::string read_text(const Json& part, const char* name) {
  if (!part[name].is_string()) refuse_schema(fmt::format("a \"{}\" that is not a string", name));
  return part[name].get<std::string>();
}

const Json& read_object(const Json& part, const char* name) {
  if (!part[name].is_object()) refuse_schema(fmt::format("\"{}\" that are not an object", name));
  return part[name];
}

void add_values(std::optional<std::vector<Json>>& values, const std::vector<Json>& more) {
  if (!values) {
    values = more;
    return;
  }
  std::erase_if(*values,
                [&](const Json& value) { return std::ranges::find(more, value) == more.end(); });
}

// An integer of so many bits is a number with bounds.
void add_integer_format(NumberConditions& numbers, const std::string& format) {
  static const std::map<std::string_view, std::pair<const char*, const char*>> kRanges{
      {"int8", {"-128", "127"}},
      {"int16", {"-32768", "32767"}},
      {"int32", {"-2147483648", "2147483647"}},
      {"int64", {"-9223372036854775808", "9223372036854775807"}},
      {"uint8", {"0", "255"}},
      {"uint16", {"0", "65535"}},
      {"uint32", {"0", "4294967295"}},
      {"uint64", {"0", "18446744073709551615"}}};
  const auto found = kRanges.find(format);
  if (found == kRanges.end()) return;
  numbers.require_minimum({Decimal::of(Json::parse(found->second.first)), false});
  numbers.require_maximum({Decimal::of(Json::parse(found->second.second)), false});
}

bool is_integer_format(const std::string& format) {
  return format.starts_with("int") || format.starts_with("uint");
}

void add_numbers(NumberConditions& numbers, const Json& part) {
  const auto bound = [&](const char* name, const char* exclusive, auto require) {
    // In OpenAPI 3.0, the exclusive keyword is a flag.
    const bool is_flag = part.contains(exclusive) && part[exclusive].is_boolean();
    if (part.contains(name)) {
      if (!part[name].is_number())
        refuse_schema(fmt::format("a \"{}\" that is not a number", name));
      require(Bound{Decimal::of(part[name]), is_flag && part[exclusive].get<bool>()});
    }
    if (!part.contains(exclusive) || is_flag) return;
    if (!part[exclusive].is_number()) {
      refuse_schema(fmt::format("a \"{}\" that is not a number", exclusive));
    }
    require(Bound{Decimal::of(part[exclusive]), true});
  };
  bound("minimum", "exclusiveMinimum", [&](const Bound& found) { numbers.require_minimum(found); });
  bound("maximum", "exclusiveMaximum", [&](const Bound& found) { numbers.require_maximum(found); });
  if (!part.contains("multipleOf")) return;
  const Json& multiple = part["multipleOf"];
  if (!multiple.is_number() || multiple <= 0) {
    refuse_schema("a \"multipleOf\" that is not a positive number");
  }
  const double value = multiple.get<double>();
  if (value != std::floor(value) || value > 1e15) {
    refuse_schema("a \"multipleOf\" that is not an integer, which is not supported");
  }
  numbers.require_multiple(static_cast<int64_t>(value));
}

}  // namespace

ValueType type_of(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_number_float()) {
    const double number = value.get<double>();
    return number == std::floor(number) ? kInteger : kFraction;
  }
  if (value.is_number()) return kInteger;
  if (value.is_string()) return kString;
  return value.is_array() ? kArray : kObject;
}

void refuse_schema(const std::string& what) {
  throw GrammarError("the schema has " + what);
}

int64_t count_of(const Json& schema, const char* name, int64_t otherwise) {
  if (!schema.contains(name)) return otherwise;
  const Json& count = schema[name];
  const bool is_count =
      count.is_number() && type_of(count) == kInteger && count >= 0 && count <= 1e15;
  if (!is_count) refuse_schema(fmt::format("a \"{}\" that is not a count", name));
  return count.is_number_float() ? static_cast<int64_t>(count.get<double>()) : count.get<int64_t>();
}

void Conditions::add(const Json& part) {
  parts.push_back(&part);
  if (part.contains("type")) types &= read_types(part["type"]);
  if (part.contains("const")) add_values(values, {part["const"]});
  if (part.contains("enum")) {
    if (!part["enum"].is_array()) refuse_schema("an \"enum\" that is not a list");
    add_values(values, part["enum"]);
  }
  add_numbers(numbers, part);
  const auto stricter = [](int64_t& maximum, int64_t other) {
    if (other >= 0) maximum = maximum < 0 ? other : std::min(maximum, other);
  };
  strings.minimum = std::max(strings.minimum, count_of(part, "minLength", 0));
  stricter(strings.maximum, count_of(part, "maxLength", -1));
  if (part.contains("pattern")) strings.patterns.push_back(read_text(part, "pattern"));
  if (part.contains("format")) {
    const std::string format = read_text(part, "format");
    if (is_integer_format(format)) {
      add_integer_format(numbers, format);
    } else if (!is_annotation(format)) {
      strings.formats.push_back(format);
    }
  }
  min_items = std::max(min_items, count_of(part, "minItems", 0));
  stricter(max_items, count_of(part, "maxItems", -1));
  if (part.contains("uniqueItems")) {
    if (!part["uniqueItems"].is_boolean()) refuse_schema("\"uniqueItems\" that is not a boolean");
    unique_items = unique_items || part["uniqueItems"].get<bool>();
  }
  min_properties = std::max(min_properties, count_of(part, "minProperties", 0));
  stricter(max_properties, count_of(part, "maxProperties", -1));
  if (part.contains("properties")) read_object(part, "properties");
  if (part.contains("patternProperties")) read_object(part, "patternProperties");
  if (!part.contains("required")) return;
  if (!part["required"].is_array()) refuse_schema("\"required\" that is not a list of names");
  for (const Json& name : part["required"]) {
    if (!name.is_string()) refuse_schema("a \"required\" name that is not a string");
    required.push_back(name.get<std::string>());
  }
}

std::vector<std::string> Conditions::listed_properties() const {
  std::vector<std::string> names;
  std::set<std::string> known;
  const auto add = [&](const std::string& name) {
    if (known.insert(name).second) names.push_back(name);
  };
  for (const Json* part : parts) {
    if (!part->contains("properties")) continue;
    for (const auto& [name, schema] : (*part)["properties"].items()) add(name);
  }
  for (const std::string& name : required) add(name);
  return names;
}

bool Conditions::are_open() const {
  return std::ranges::all_of(parts, [](const Json* part) {
    if (part->contains("additionalProperties")) {
      return (*part)["additionalProperties"] != false || part->contains("patternProperties");
    }
    return !part->contains("properties") || part->contains("patternProperties");
  });
}

Schemas Conditions::schemas_of_property(const std::string& name) const {
  Schemas schemas;
  for (const Json* part : parts) {
    bool is_known = false;
    if (part->contains("properties") && (*part)["properties"].contains(name)) {
      schemas.push_back(&(*part)["properties"][name]);
      is_known = true;
    }
    if (part->contains("patternProperties")) {
      for (const auto& [pattern, schema] : (*part)["patternProperties"].items()) {
        // Where libraries differ, the schema of the pattern and that of other names hold.
        if (!texts_matching(pattern, /*any=*/true).matches(name)) continue;
        schemas.push_back(&schema);
        is_known = is_known || texts_matching(pattern, /*any=*/false).matches(name);
      }
    }
    if (!is_known && part->contains("additionalProperties")) {
      schemas.push_back(&(*part)["additionalProperties"]);
    }
  }
  return schemas;
}

namespace {

// "items" that is a list is an old form of "prefixItems", with "additionalItems" for the rest.
const Json* prefix_of(const Json& part) {
  if (part.contains("prefixItems")) {
    if (!part["prefixItems"].is_array()) refuse_schema("a \"prefixItems\" that is not a list");
    return &part["prefixItems"];
  }
  return part.contains("items") && part["items"].is_array() ? &part["items"] : nullptr;
}

}  // namespace

Schemas Conditions::schemas_of_item(size_t index) const {
  Schemas schemas;
  for (const Json* part : parts) {
    const Json* prefix = prefix_of(*part);
    if (prefix && index < prefix->size()) {
      schemas.push_back(&(*prefix)[index]);
      continue;
    }
    const char* rest = prefix && !part->contains("prefixItems") ? "additionalItems" : "items";
    if (part->contains(rest)) schemas.push_back(&(*part)[rest]);
  }
  return schemas;
}

size_t Conditions::num_prefix_items() const {
  size_t count = 0;
  for (const Json* part : parts) {
    if (const Json* prefix = prefix_of(*part)) count = std::max(count, prefix->size());
  }
  return count;
}

}  // namespace colossal::text::grammar
