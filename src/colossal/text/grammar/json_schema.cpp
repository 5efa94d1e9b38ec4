#include "colossal/text/grammar/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "colossal/text/grammar/json_rules.h"
#include "colossal/text/grammar/schema_parts.h"
#include "colossal/text/grammar/work_limit.h"

namespace colossal::text::grammar {
namespace {

using Json = SchemaJson;

constexpr int kMaxSchemaDepth = 64;
constexpr size_t kMaxSchemaBytes = size_t{64} << 10;
constexpr size_t kMaxUniqueValues = 8;
constexpr size_t kMaxNamePatterns = 4;

int depth_of(const Json& json) {
  int depth = 0;
  if (json.is_structured()) {
    for (const Json& item : json) depth = std::max(depth, depth_of(item));
  }
  return depth + 1;
}

class SchemaWriter {
 public:
  SchemaWriter(Grammar& grammar, const Json& root)
      : grammar_(grammar), rules_(grammar), parts_(root) {}

  // Returns the values that fit all of the schemas. Each set of schemas has one rule, so that a
  // schema may refer to itself.
  Symbol write(Schemas schemas) {
    std::erase_if(schemas, [](const Json* schema) { return *schema == true; });
    if (schemas.empty()) return rules_.any_value();
    std::ranges::sort(schemas);
    schemas.erase(std::unique(schemas.begin(), schemas.end()), schemas.end());
    const auto known = written_.find(schemas);
    if (known != written_.end()) return known->second;
    const Symbol symbol{.rule = grammar_.add_rule()};
    written_[schemas] = symbol;
    for (const Conditions& conditions : parts_.alternatives_of(schemas)) {
      write_alternative(symbol.rule, conditions);
    }
    return symbol;
  }

 private:
  void write_alternative(int32_t rule, const Conditions& conditions) {
    const auto add = [&](const Symbol& symbol) { grammar_.add_alternative(rule, {symbol}); };
    const auto add_text = [&](const char* text) {
      grammar_.add_alternative(rule, Grammar::literal(text));
    };
    if (conditions.values) return add(rules_.any_of(texts_of(conditions)));
    const ValueTypes types = conditions.types;
    if ((types & kNull) != 0) add_text("null");
    if ((types & kBoolean) != 0) {
      add_text("true");
      add_text("false");
    }
    if ((types & (kInteger | kFraction)) != 0) add(numbers(conditions));
    if ((types & kString) != 0) add(strings(conditions.strings));
    if ((types & kArray) != 0) add(list(conditions));
    if ((types & kObject) != 0) add(object(conditions));
  }

  // The values of "enum" and "const" that fit all other conditions.
  std::set<std::string> texts_of(const Conditions& conditions) {
    std::set<std::string> texts;
    for (const Json& value : *conditions.values) {
      const bool fits = std::ranges::all_of(
          conditions.parts, [&](const Json* part) { return parts_.fits(value, *part); });
      if (fits) texts.insert(value.dump());
    }
    return texts;
  }

  Symbol numbers(const Conditions& conditions) {
    const bool whole = (conditions.types & kFraction) == 0;
    if (!conditions.numbers.empty()) return add_numbers(grammar_, conditions.numbers, whole);
    return whole ? rules_.any_integer() : rules_.any_number();
  }

  Symbol strings(const StringConditions& conditions) {
    if (conditions.is_empty()) return rules_.any_string();
    if (conditions.maximum >= 0 && conditions.maximum < conditions.minimum) return nothing();
    if (conditions.are_lengths()) return rules_.string(conditions.minimum, conditions.maximum);
    return quoted(conditions.automaton().add_as_json_to(grammar_));
  }

  Symbol quoted(const Symbol& symbol) {
    Sequence sequence = Grammar::literal("\"");
    sequence.push_back(symbol);
    append(sequence, Grammar::literal("\""));
    return grammar_.add_anonymous_rule({std::move(sequence)});
  }

  Symbol nothing() { return grammar_.add_anonymous_rule({}); }

  Symbol list(const Conditions& conditions) {
    const int64_t minimum = conditions.min_items, maximum = conditions.max_items;
    if (maximum >= 0 && maximum < minimum) return nothing();
    if (conditions.unique_items && (maximum < 0 || maximum > 1)) return unique_list(conditions);
    std::vector<Sequence> alternatives;
    if (minimum == 0) {
      alternatives.push_back(rules_.opened("["));
      append(alternatives.back(), Grammar::literal("]"));
    }
    if (maximum != 0) {
      Sequence sequence = rules_.opened("[");
      sequence.push_back(write(conditions.schemas_of_item(0)));
      sequence.push_back(after_items(conditions));
      alternatives.push_back(std::move(sequence));
    }
    return grammar_.add_anonymous_rule(std::move(alternatives));
  }

  // Returns what follows the first item of a list. Items with schemas of their own come first.
  Symbol after_items(const Conditions& conditions) {
    const int64_t minimum = conditions.min_items, maximum = conditions.max_items;
    const auto count = static_cast<int64_t>(std::max<size_t>(conditions.num_prefix_items(), 1));
    const auto next = [&](int64_t index) {
      Sequence sequence = rules_.spaced(",");
      sequence.push_back(write(conditions.schemas_of_item(static_cast<size_t>(index))));
      return sequence;
    };
    Sequence rest;
    if (maximum < 0 || maximum > count) {
      rest = grammar_.repeated(grammar_.add_anonymous_rule({next(count)}),
                               std::max<int64_t>(minimum - count, 0),
                               maximum < 0 ? -1 : maximum - count);
    }
    append(rest, rules_.closed("]"));
    Symbol after = grammar_.add_anonymous_rule({std::move(rest)});
    if (minimum > count && maximum >= 0 && maximum <= count) after = nothing();
    for (int64_t index = count - 1; index > 0; --index) {
      std::vector<Sequence> alternatives;
      if (index >= minimum) alternatives.push_back(rules_.closed("]"));
      if (maximum < 0 || index < maximum) {
        alternatives.push_back(next(index));
        alternatives.back().push_back(after);
      }
      after = grammar_.add_anonymous_rule(std::move(alternatives));
    }
    return after;
  }

  // Lists of different values: a rule for each set of values that are left.
  Symbol unique_list(const Conditions& conditions) {
    const std::vector<std::string> values = listed_values(conditions);
    std::map<unsigned, Symbol> rules;
    const auto most = conditions.max_items < 0 ? std::ssize(values) : conditions.max_items;
    const std::function<Symbol(unsigned, int64_t)> after = [&](unsigned used, int64_t count) {
      if (const auto known = rules.find(used); known != rules.end()) return known->second;
      std::vector<Sequence> alternatives;
      if (count >= conditions.min_items) {
        alternatives.push_back(count == 0 ? Grammar::literal("]") : rules_.closed("]"));
      }
      for (size_t i = 0; i < values.size() && count < most; ++i) {
        if ((used >> i & 1) != 0) continue;
        Sequence sequence = count == 0 ? Sequence() : rules_.spaced(",");
        append(sequence, Grammar::literal(values[i]));
        sequence.push_back(after(used | 1U << i, count + 1));
        alternatives.push_back(std::move(sequence));
      }
      return rules[used] = grammar_.add_anonymous_rule(std::move(alternatives));
    };
    Sequence sequence = rules_.opened("[");
    sequence.push_back(after(0, 0));
    return grammar_.add_anonymous_rule({std::move(sequence)});
  }

  // Returns the values of a list's items, if the schema lists them.
  std::vector<std::string> listed_values(const Conditions& conditions) {
    std::vector<Json> values;
    bool are_listed = conditions.num_prefix_items() == 0;
    const std::vector<Conditions> alternatives =
        are_listed ? parts_.alternatives_of(conditions.schemas_of_item(0))
                   : std::vector<Conditions>();
    for (const Conditions& each : alternatives) {
      std::vector<Json> found;
      if (each.values) {
        for (const std::string& text : texts_of(each)) found.push_back(Json::parse(text));
      } else {
        are_listed = are_listed && (each.types & ~(kNull | kBoolean)) == 0;
        if ((each.types & kNull) != 0) found.emplace_back(nullptr);
        if ((each.types & kBoolean) != 0) found.insert(found.end(), {false, true});
      }
      for (Json& value : found) {
        if (std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
      }
    }
    if (!are_listed || values.size() > kMaxUniqueValues) {
      refuse_schema(fmt::format(
          "\"uniqueItems\", which is supported only for at most one item, and for items "
          "that are one of up to {} listed values",
          kMaxUniqueValues));
    }
    std::vector<std::string> texts;
    for (const Json& value : values) texts.push_back(value.dump());
    return texts;
  }

  Symbol object(const Conditions& conditions) {
    const int64_t minimum = conditions.min_properties, maximum = conditions.max_properties;
    if (maximum >= 0 && maximum < minimum) return nothing();
    const std::vector<std::string> listed = conditions.listed_properties();
    std::vector<Sequence> others;
    if (conditions.are_open()) others = other_pairs(conditions, listed);
    const std::set<std::string> required(conditions.required.begin(), conditions.required.end());
    // A name may be written twice among the others, which counts once.
    if (!others.empty() && minimum > 1 && minimum > std::ssize(required)) {
      refuse_schema(
          "\"minProperties\" above 1 without \"additionalProperties\": false, which is not "
          "supported");
    }
    // Rules are made from the last property to the first, for each number of properties before it:
    // up to `most`, which stands for all larger numbers if there is no maximum.
    const int64_t most = maximum >= 0 ? maximum : std::max<int64_t>(minimum, 1);
    std::vector<Symbol> after = ends_of_object(conditions, others, most);
    for (size_t i = listed.size(); i-- > 0;) {
      Sequence pair = Grammar::literal(Json(listed[i]).dump());
      append(pair, rules_.spaced(":"));
      pair.push_back(fits_names(conditions, listed[i])
                         ? write(conditions.schemas_of_property(listed[i]))
                         : nothing());
      std::vector<Symbol> before;
      for (int64_t count = 0; count <= most; ++count) {
        std::vector<Sequence> alternatives;
        if (maximum < 0 || count < maximum) {
          alternatives.push_back(count == 0 ? Sequence() : rules_.spaced(","));
          append(alternatives.back(), pair);
          alternatives.back().push_back(after[static_cast<size_t>(std::min(count + 1, most))]);
        }
        if (!required.contains(listed[i])) {
          alternatives.push_back({after[static_cast<size_t>(count)]});
        }
        before.push_back(grammar_.add_anonymous_rule(std::move(alternatives)));
      }
      after = std::move(before);
    }
    Sequence sequence = rules_.opened("{");
    sequence.push_back(after[0]);
    return grammar_.add_anonymous_rule({std::move(sequence)});
  }

  // Returns what may follow the listed properties, by the number of properties written.
  std::vector<Symbol> ends_of_object(const Conditions& conditions,
                                     const std::vector<Sequence>& others, int64_t most) {
    std::vector<Symbol> ends;
    for (int64_t count = 0; count <= most; ++count) ends.push_back({.rule = grammar_.add_rule()});
    for (int64_t count = 0; count <= most; ++count) {
      const int32_t rule = ends[static_cast<size_t>(count)].rule;
      if (count >= conditions.min_properties) {
        grammar_.add_alternative(rule, count == 0 ? Grammar::literal("}") : rules_.closed("}"));
      }
      if (conditions.max_properties >= 0 && count == most) continue;
      for (const Sequence& pair : others) {
        Sequence sequence = count == 0 ? Sequence() : rules_.spaced(",");
        append(sequence, pair);
        sequence.push_back(ends[static_cast<size_t>(std::min(count + 1, most))]);
        grammar_.add_alternative(rule, std::move(sequence));
      }
    }
    return ends;
  }

  // Whether "propertyNames" allows a name.
  bool fits_names(const Conditions& conditions, const std::string& name) {
    return std::ranges::all_of(conditions.parts, [&](const Json* part) {
      return !part->contains("propertyNames") || parts_.fits(Json(name), (*part)["propertyNames"]);
    });
  }

  // Returns pairs of a name that is not listed and its value. Names are divided by the patterns
  // that they match.
  std::vector<Sequence> other_pairs(const Conditions& conditions,
                                    const std::vector<std::string>& listed) {
    struct NamePattern {
      const Json* part;
      const Json* schema;
      ByteAutomaton names, others;  // names that match it, and those that do not, for all libraries
    };
    std::vector<NamePattern> patterns;
    for (const Json* part : conditions.parts) {
      if (!part->contains("patternProperties")) continue;
      for (const auto& [pattern, schema] : (*part)["patternProperties"].items()) {
        const ByteAutomaton all = ByteAutomaton::of_lengths(0, -1);
        patterns.push_back({part, &schema, texts_matching(pattern, /*any=*/false),
                            all.without(texts_matching(pattern, /*any=*/true))});
      }
    }
    if (patterns.size() > kMaxNamePatterns) {
      refuse_schema(
          fmt::format("\"patternProperties\" with more than {} patterns, which is not "
                      "supported",
                      kMaxNamePatterns));
    }
    std::optional<ByteAutomaton> allowed = allowed_names(conditions);
    std::vector<Sequence> pairs;
    if (patterns.empty() && listed.empty() && !allowed) {
      pairs.push_back(pair_of(rules_.any_string(), write(rest_of(conditions, {}))));
      return pairs;
    }
    const std::set<std::string> others(listed.begin(), listed.end());
    ByteAutomaton names = ByteAutomaton::of_other_texts(others);
    if (allowed) names = names.intersected(*allowed);
    for (unsigned matched = 0; matched < 1U << patterns.size(); ++matched) {
      ByteAutomaton these = names;
      Schemas schemas;
      std::set<const Json*> matching;
      for (size_t i = 0; i < patterns.size(); ++i) {
        const bool is_matched = (matched >> i & 1) != 0;
        these = these.intersected(is_matched ? patterns[i].names : patterns[i].others);
        if (!is_matched) continue;
        schemas.push_back(patterns[i].schema);
        matching.insert(patterns[i].part);
      }
      if (these.is_empty()) continue;
      for (const Json* schema : rest_of(conditions, matching)) schemas.push_back(schema);
      pairs.push_back(pair_of(quoted(these.add_as_json_to(grammar_)), write(schemas)));
    }
    return pairs;
  }

  // Returns what parts demand of properties that they do not list. matching: parts with a pattern
  // that matches the name.
  static Schemas rest_of(const Conditions& conditions, const std::set<const Json*>& matching) {
    Schemas schemas;
    for (const Json* part : conditions.parts) {
      if (matching.contains(part)) continue;
      if (part->contains("additionalProperties")) {
        schemas.push_back(&(*part)["additionalProperties"]);
      } else if (part->contains("properties")) {
        schemas.push_back(&SchemaParts::none());  // those that are listed are all
      }
    }
    return schemas;
  }

  Sequence pair_of(const Symbol& name, const Symbol& value) {
    Sequence pair{name};
    append(pair, rules_.spaced(":"));
    pair.push_back(value);
    return pair;
  }

  // Returns the names that "propertyNames" allows; nullopt: all.
  std::optional<ByteAutomaton> allowed_names(const Conditions& conditions) {
    Schemas schemas;
    for (const Json* part : conditions.parts) {
      if (part->contains("propertyNames")) schemas.push_back(&(*part)["propertyNames"]);
    }
    if (schemas.empty()) return std::nullopt;
    const std::vector<Conditions> alternatives = parts_.alternatives_of(schemas);
    if (alternatives.size() > 1) {
      refuse_schema("\"propertyNames\" with alternatives, which is not supported");
    }
    const bool has_names = !alternatives.empty() && (alternatives[0].types & kString) != 0;
    if (!has_names || alternatives[0].values) {
      Grammar names;
      std::set<std::string> texts;
      if (has_names) {
        for (const std::string& text : texts_of(alternatives[0])) {
          const Json value = Json::parse(text);
          if (value.is_string()) texts.insert(value.get<std::string>());
        }
      }
      if (texts.empty())
        return ByteAutomaton::of_lengths(0, 0).without(ByteAutomaton::of_lengths(0, 0));
      const Symbol root = add_texts(names, texts);
      return ByteAutomaton::of_grammar(names, root);
    }
    return alternatives[0].strings.automaton();
  }

  Grammar& grammar_;
  JsonRules rules_;
  SchemaParts parts_;
  std::map<Schemas, Symbol> written_;
};

}  // namespace

Symbol add_json_schema(Grammar& grammar, const Json& schema) {
  if (schema.dump(-1, ' ', false, Json::error_handler_t::replace).size() > kMaxSchemaBytes) {
    throw GrammarError("the schema is longer than 64 KiB");
  }
  if (depth_of(schema) > kMaxSchemaDepth) {
    throw GrammarError(fmt::format("the schema is nested deeper than {} levels", kMaxSchemaDepth));
  }
  const WorkLimit limit;
  return SchemaWriter(grammar, schema).write({&schema});
}

Symbol add_json_object(Grammar& grammar) {
  return JsonRules(grammar).any_object();
}

}  // namespace colossal::text::grammar
