#include "colossal/text/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "colossal/text/grammar/regular_expression.h"

namespace colossal::text::grammar {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxSchemaDepth = 32;
constexpr size_t kMaxSchemaBytes = size_t{64} << 10;

// Keywords that check_keywords() accepts everywhere: they do not restrict values, or not the values
// that the grammar allows, or they are read elsewhere.
const std::set<std::string_view> kDescriptions{"title",
                                               "description",
                                               "default",
                                               "examples",
                                               "$schema",
                                               "$id",
                                               "$defs",
                                               "definitions",
                                               "$comment",
                                               "format",
                                               "deprecated",
                                               "readOnly",
                                               "writeOnly",
                                               "strict",
                                               "contentType",
                                               "nullable",
                                               "additionalProperties"};

// The keywords that restrict the values of a type; other types have none.
std::set<std::string_view> keywords_of(std::string_view type) {
  if (type == "object") return {"properties", "required"};
  if (type == "array") return {"items", "prefixItems", "minItems", "maxItems"};
  if (type == "string") return {"minLength", "maxLength", "pattern"};
  return {};
}

void append(Sequence& sequence, const Sequence& more) {
  sequence.insert(sequence.end(), more.begin(), more.end());
}

// The rules of JSON itself, which all schemas share.
class JsonRules {
 public:
  explicit JsonRules(Grammar& grammar) : grammar_(grammar) {
    // White space between elements: none, one space, or a line end with up to 20 spaces.
    Sequence line = Grammar::literal("\n");
    append(line, grammar.repeated(Grammar::literal(" ")[0], 0, 20));
    space_ = grammar.add_anonymous_rule({{}, Grammar::literal(" "), std::move(line)});
    const Symbol escape = add_regular_expression(grammar, R"(\\(["\\/bfnrt]|u[0-9a-fA-F]{4}))");
    character_ =
        grammar.add_anonymous_rule({{add_regular_expression(grammar, ".|\\n", true)}, {escape}});
    string_ = string(0, -1);
    integer_ = add_regular_expression(grammar, "-?(0|[1-9][0-9]{0,17})");
    number_ = add_regular_expression(
        grammar, R"(-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?)");
    value_ = {.rule = grammar.add_rule()};
    any_object_ = object_of(value_);
    const std::vector<Sequence> kinds{{any_object_},
                                      {list_of(value_, 0, -1)},
                                      {string_},
                                      {number_},
                                      Grammar::literal("true"),
                                      Grammar::literal("false"),
                                      Grammar::literal("null")};
    for (const Sequence& kind : kinds) grammar.add_alternative(value_.rule, kind);
  }

  const Symbol& any_value() const { return value_; }
  const Symbol& any_object() const { return any_object_; }
  const Symbol& integer() const { return integer_; }
  const Symbol& number() const { return number_; }
  const Symbol& any_string() const { return string_; }

  Symbol string(int64_t minimum, int64_t maximum) {
    Sequence sequence = Grammar::literal("\"");
    append(sequence, grammar_.repeated(character_, minimum, maximum));
    append(sequence, Grammar::literal("\""));
    return grammar_.add_anonymous_rule({std::move(sequence)});
  }

  // Returns `text` with optional white space on both sides.
  Sequence spaced(std::string_view text) const {
    Sequence sequence{space_};
    append(sequence, Grammar::literal(text));
    sequence.push_back(space_);
    return sequence;
  }
  Sequence opened(std::string_view bracket) const {
    Sequence sequence = Grammar::literal(bracket);
    sequence.push_back(space_);
    return sequence;
  }
  Sequence closed(std::string_view bracket) const {
    Sequence sequence{space_};
    append(sequence, Grammar::literal(bracket));
    return sequence;
  }

  // Returns an object of any number of pairs of a string and such a value.
  Symbol object_of(const Symbol& value) {
    Sequence pair{string_};
    append(pair, spaced(":"));
    pair.push_back(value);
    return bracketed("{", grammar_.add_anonymous_rule({std::move(pair)}), "}", 0, -1);
  }
  Symbol list_of(const Symbol& item, int64_t minimum, int64_t maximum) {
    return bracketed("[", item, "]", minimum, maximum);
  }

 private:
  Symbol bracketed(std::string_view open, const Symbol& item, std::string_view close,
                   int64_t minimum, int64_t maximum) {
    std::vector<Sequence> alternatives;
    if (minimum == 0) {
      alternatives.push_back(opened(open));
      append(alternatives.back(), Grammar::literal(close));
    }
    if (maximum != 0) {
      Sequence next = spaced(",");
      next.push_back(item);
      Sequence sequence = opened(open);
      sequence.push_back(item);
      append(sequence,
             grammar_.repeated(grammar_.add_anonymous_rule({std::move(next)}),
                               std::max<int64_t>(minimum - 1, 0), maximum < 0 ? -1 : maximum - 1));
      append(sequence, closed(close));
      alternatives.push_back(std::move(sequence));
    }
    return grammar_.add_anonymous_rule(std::move(alternatives));
  }

  Grammar& grammar_;
  Symbol space_, character_, string_, integer_, number_, value_, any_object_;
};

// Whether a value has a type of JSON Schema. type: a name, or a list of names.
bool has_type(const Json& value, const Json& type) {
  if (type.is_array()) {
    return std::ranges::any_of(type, [&](const Json& one) { return has_type(value, one); });
  }
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  return type == "null" && value.is_null();
}

// Divides a regular expression at each | that is in no group and in no class.
std::vector<std::string> alternatives_of(std::string_view pattern) {
  std::vector<std::string> alternatives(1);
  int groups = 0;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '|' && groups == 0 && !in_class) {
      alternatives.emplace_back();
      continue;
    }
    alternatives.back() += c;
    if (c == '\\' && i + 1 < pattern.size()) {
      alternatives.back() += pattern[++i];
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(' || c == ')') {
      groups += c == '(' ? 1 : -1;
    }
  }
  return alternatives;
}

// Whether the last character is a $ that no backslash makes an ordinary character.
bool ends_at_end(std::string_view pattern) {
  if (!pattern.ends_with('$')) return false;
  const size_t other = pattern.find_last_not_of('\\', pattern.size() - 2);
  return pattern.size() == 1 || (pattern.size() - 2 - other) % 2 == 0;
}

// In JSON Schema, a pattern may match anywhere in the string. Returns the pattern for the whole
// string.
std::string whole_string(std::string_view pattern) {
  std::string whole;
  for (const std::string& alternative : alternatives_of(pattern)) {
    const bool begins = alternative.starts_with('^'), ends = ends_at_end(alternative);
    whole += fmt::format("{}{}(?:{}){}", whole.empty() ? "" : "|", begins ? "" : "(.|\\n)*",
                         alternative.substr(begins, alternative.size() - begins - ends),
                         ends ? "" : "(.|\\n)*");
  }
  return whole;
}

class SchemaReader {
 public:
  SchemaReader(Grammar& grammar, const Json& root)
      : grammar_(grammar), rules_(grammar), root_(root) {}

  Symbol read(const Json& schema) {
    if (++depth_ > kMaxSchemaDepth) {
      throw GrammarError(
          fmt::format("the schema is nested deeper than {} levels", kMaxSchemaDepth));
    }
    const Symbol symbol = read_any(schema);
    --depth_;
    return symbol;
  }

 private:
  [[noreturn]] static void refuse(const std::string& what) {
    throw GrammarError("the schema has " + what);
  }

  // Refuses other keywords: ignoring them would allow too many values.
  static void check_keywords(const Json& schema, const std::set<std::string_view>& known) {
    for (const auto& [keyword, value] : schema.items()) {
      if (!known.contains(keyword) && !kDescriptions.contains(keyword)) {
        const bool is_misplaced = std::ranges::any_of(
            std::array{"object", "array", "string"},
            [&](const char* type) { return keywords_of(type).contains(keyword); });
        refuse(fmt::format("\"{}\", which {}", keyword,
                           is_misplaced ? "does not apply there" : "is not supported"));
      }
    }
  }

  Symbol read_any(const Json& schema) {
    if (schema.is_boolean() && schema.get<bool>()) return rules_.any_value();
    if (!schema.is_object()) refuse("a part that is not an object");
    if (schema.contains("$ref")) return read_reference(schema);
    if (schema.contains("const")) return read_values(schema, "const", {schema["const"]});
    if (schema.contains("enum")) {
      if (!schema["enum"].is_array()) refuse("an \"enum\" that is not a list");
      return read_values(schema, "enum", schema["enum"]);
    }
    for (const char* name : {"anyOf", "oneOf", "allOf"}) {
      if (schema.contains(name)) return read_alternatives(schema, name);
    }
    if (!schema.contains("type")) {
      const bool is_object = schema.contains("properties");
      check_keywords(schema, keywords_of(is_object ? "object" : ""));
      return is_object ? read_object(schema) : rules_.any_value();
    }
    return read_types(schema);
  }

  // A keyword must apply to one of the types.
  Symbol read_types(const Json& schema) {
    const Json& given = schema["type"];
    const Json types = given.is_string() ? Json::array({given}) : given;
    if (!types.is_array() || types.empty()) refuse("a \"type\" that is neither a name nor a list");
    std::set<std::string_view> known{"type"};
    for (const Json& type : types) {
      if (!type.is_string()) refuse("a \"type\" that is not a name");
      known.merge(keywords_of(type.get_ref<const std::string&>()));
    }
    check_keywords(schema, known);
    if (types.size() == 1) return read_type(schema, types[0].get<std::string>());
    std::vector<Sequence> alternatives;
    for (const Json& type : types) {
      alternatives.push_back({read_type(schema, type.get<std::string>())});
    }
    return grammar_.add_anonymous_rule(std::move(alternatives));
  }

  // values: those that the keyword `name` lists. A "type" beside it excludes values of other types.
  Symbol read_values(const Json& schema, const char* name, const std::vector<Json>& values) {
    check_keywords(schema, {name, "type"});
    std::vector<Sequence> alternatives;
    for (const Json& value : values) {
      if (schema.contains("type") && !has_type(value, schema["type"])) continue;
      alternatives.push_back(Grammar::literal(value.dump()));
    }
    if (alternatives.empty()) refuse(fmt::format("\"{}\" without values of its \"type\"", name));
    return grammar_.add_anonymous_rule(std::move(alternatives));
  }

  // A "type" beside the list is that of each alternative that has no type.
  Symbol read_alternatives(const Json& schema, const char* name) {
    check_keywords(schema, {name, "type"});
    const Json& list = schema[name];
    if (!list.is_array() || list.empty()) refuse(fmt::format("an empty \"{}\"", name));
    if (std::string_view(name) == "allOf" && list.size() > 1) refuse("\"allOf\" of several");
    std::vector<Sequence> alternatives;
    for (Json one : list) {
      if (schema.contains("type") && one.is_object()) {
        if (!one.contains("type")) one["type"] = schema["type"];
        if (one.contains("$ref") || one["type"] != schema["type"]) {
          refuse(
              fmt::format("a \"type\" beside \"{}\" that is not the type of each alternative; "
                          "give each its own type",
                          name));
        }
      }
      alternatives.push_back({read(one)});
    }
    return grammar_.add_anonymous_rule(std::move(alternatives));
  }

  // Reads "#" or "#/$defs/name". Each reference has one rule, so that a schema may refer to itself.
  Symbol read_reference(const Json& schema) {
    check_keywords(schema, {"$ref"});
    const std::string path = schema["$ref"].is_string() ? schema["$ref"].get<std::string>() : "";
    if (!path.starts_with('#')) refuse("a \"$ref\" that leads out of it");
    if (open_references_.contains(path)) {
      refuse(
          fmt::format("a \"$ref\" to {} that leads to itself without an object or a list between",
                      path.substr(0, 80)));
    }
    const auto known = references_.find(path);
    if (known != references_.end()) return known->second;
    const Symbol symbol{.rule = grammar_.add_rule()};
    references_[path] = symbol;
    open_references_.insert(path);
    try {
      grammar_.add_alternative(symbol.rule, {read(root_.at(Json::json_pointer(path.substr(1))))});
    } catch (const Json::exception&) {
      refuse(fmt::format("a \"$ref\" to {}, which does not exist", path.substr(0, 80)));
    }
    open_references_.erase(path);
    return symbol;
  }

  // Reads a part of an object or of a list. Such a part may refer to the schema around it, since
  // the bracket comes first.
  Symbol read_part(const Json& schema) {
    const std::set<std::string> outer = std::exchange(open_references_, {});
    const Symbol symbol = read(schema);
    open_references_ = outer;
    return symbol;
  }

  static int64_t count_of(const Json& schema, const char* name, int64_t otherwise) {
    if (!schema.contains(name)) return otherwise;
    if (!schema[name].is_number_integer() || schema[name] < 0) {
      refuse(fmt::format("a \"{}\" that is not a count", name));
    }
    return schema[name].get<int64_t>();
  }

  Symbol read_type(const Json& schema, const std::string& type) {
    if (type == "object") return read_object(schema);
    if (type == "array") return read_list(schema);
    if (type == "string") return read_string(schema);
    if (type == "integer") return rules_.integer();
    if (type == "number") return rules_.number();
    if (type == "null") return grammar_.add_anonymous_rule({Grammar::literal("null")});
    if (type == "boolean") {
      return grammar_.add_anonymous_rule({Grammar::literal("true"), Grammar::literal("false")});
    }
    refuse(fmt::format("the type {}, which JSON does not have", type.substr(0, 40)));
  }

  Symbol read_string(const Json& schema) {
    const int64_t minimum = count_of(schema, "minLength", 0);
    const int64_t maximum = count_of(schema, "maxLength", -1);
    if (!schema.contains("pattern")) {
      if (maximum >= 0 && maximum < minimum) refuse("a \"maxLength\" below \"minLength\"");
      return minimum == 0 && maximum < 0 ? rules_.any_string() : rules_.string(minimum, maximum);
    }
    if (!schema["pattern"].is_string()) refuse("a \"pattern\" that is not a string");
    if (minimum > 0 || maximum >= 0)
      refuse("a \"pattern\" together with a length; give one of them");
    const std::string whole = whole_string(schema["pattern"].get_ref<const std::string&>());
    Sequence sequence = Grammar::literal("\"");
    sequence.push_back(add_regular_expression(grammar_, whole, /*within_json=*/true));
    append(sequence, Grammar::literal("\""));
    return grammar_.add_anonymous_rule({std::move(sequence)});
  }

  Symbol read_list(const Json& schema) {
    if (schema.contains("prefixItems")) return read_fixed_list(schema);
    const int64_t minimum = count_of(schema, "minItems", 0);
    const int64_t maximum = count_of(schema, "maxItems", -1);
    if (maximum >= 0 && maximum < minimum) refuse("a \"maxItems\" below \"minItems\"");
    const Symbol item = schema.contains("items") ? read_part(schema["items"]) : rules_.any_value();
    return rules_.list_of(item, minimum, maximum);
  }

  // Reads "prefixItems": a list of all of these items, and no more.
  Symbol read_fixed_list(const Json& schema) {
    if (!schema["prefixItems"].is_array()) refuse("a \"prefixItems\" that is not a list");
    const auto count = std::ssize(schema["prefixItems"]);
    if (count_of(schema, "minItems", count) > count ||
        count_of(schema, "maxItems", count) < count) {
      refuse(
          "\"minItems\" or \"maxItems\" that its \"prefixItems\" do not meet: a list has all "
          "of these items, and no more");
    }
    Sequence sequence = rules_.opened("[");
    bool first = true;
    for (const Json& item : schema["prefixItems"]) {
      if (!std::exchange(first, false)) append(sequence, rules_.spaced(","));
      sequence.push_back(read_part(item));
    }
    append(sequence, rules_.closed("]"));
    return grammar_.add_anonymous_rule({std::move(sequence)});
  }

  Symbol read_object(const Json& schema) {
    if (!schema.contains("properties")) {
      const Json more = schema.value("additionalProperties", Json(true));
      return more.is_object() ? rules_.object_of(read_part(more)) : rules_.any_object();
    }
    if (!schema["properties"].is_object()) refuse("\"properties\" that are not an object");
    std::set<std::string> required;
    for (const Json& name : schema.value("required", Json::array())) {
      if (!name.is_string() || !schema["properties"].contains(name.get<std::string>())) {
        refuse("a \"required\" name that is not among its properties");
      }
      required.insert(name.get<std::string>());
    }
    return read_properties(schema["properties"], required);
  }

  // Allows the properties in the order of the schema; those that are not required may be missing.
  // Builds rules from the last property to the first: two for each, because a comma precedes a
  // property only if another one has been written.
  Symbol read_properties(const Json& properties, const std::set<std::string>& required) {
    Symbol after_none = grammar_.add_anonymous_rule({Grammar::literal("}")});
    Symbol after_some = grammar_.add_anonymous_rule({rules_.closed("}")});
    for (auto property = properties.rbegin(); property != properties.rend(); ++property) {
      Sequence pair = Grammar::literal(Json(property.key()).dump());
      append(pair, rules_.spaced(":"));
      pair.push_back(read_part(property.value()));
      pair.push_back(after_some);
      Sequence with_comma = rules_.spaced(",");
      append(with_comma, pair);
      std::vector<Sequence> first{pair}, later{with_comma};
      if (!required.contains(property.key())) {
        first.push_back({after_none});
        later.push_back({after_some});
      }
      after_none = grammar_.add_anonymous_rule(std::move(first));
      after_some = grammar_.add_anonymous_rule(std::move(later));
    }
    Sequence sequence = rules_.opened("{");
    sequence.push_back(after_none);
    return grammar_.add_anonymous_rule({std::move(sequence)});
  }

  Grammar& grammar_;
  JsonRules rules_;
  const Json& root_;
  std::map<std::string, Symbol> references_;
  // The references that are being read, and of which no byte has been read.
  std::set<std::string> open_references_;
  int depth_ = 0;
};

}  // namespace

Symbol add_json_schema(Grammar& grammar, const Json& schema) {
  if (schema.dump().size() > kMaxSchemaBytes)
    throw GrammarError("the schema is longer than 64 KiB");
  return SchemaReader(grammar, schema).read(schema);
}

Symbol add_json_object(Grammar& grammar) {
  return JsonRules(grammar).any_object();
}

}  // namespace colossal::text::grammar
