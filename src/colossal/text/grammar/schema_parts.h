// Takes schemas apart: resolves references and combinations, so that what is left are conditions on
// values of each type.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/grammar/schema_numbers.h"
#include "colossal/text/grammar/schema_strings.h"

namespace colossal::text::grammar {

using SchemaJson = nlohmann::ordered_json;

// Types of values as bits; a JSON Schema "number" is an integer or a fraction.
using ValueTypes = unsigned;
enum ValueType : ValueTypes {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kFraction = 8,
  kString = 16,
  kArray = 32,
  kObject = 64,
  kAllTypes = 127
};
// Returns the type of a value. A float without a fraction is an integer.
ValueType type_of(const SchemaJson& value);

// Schemas that a value must fit all at once. They are parts of the whole schema.
using Schemas = std::vector<const SchemaJson*>;

// What is common to the alternatives of a schema: the conditions that its parts place together.
// Parts are schemas without references and combinations (those are resolved).
struct Conditions {
  Schemas parts;
  ValueTypes types = kAllTypes;
  std::optional<std::vector<SchemaJson>> values;  // of "enum" and "const"; nullopt: any
  NumberConditions numbers;
  StringConditions strings;
  int64_t min_items = 0, max_items = -1;            // negative: no limit
  int64_t min_properties = 0, max_properties = -1;  // negative: no limit
  bool unique_items = false;
  std::vector<std::string> required;  // in the order of the schema

  // Adds the conditions of a part. Throws GrammarError if a keyword has an invalid value.
  void add(const SchemaJson& part);
  // Returns the schemas that a property of this name must fit.
  Schemas schemas_of_property(const std::string& name) const;
  // Returns the schemas of the item at `index`.
  Schemas schemas_of_item(size_t index) const;
  // Returns the number of items that have a schema of their own ("prefixItems").
  size_t num_prefix_items() const;
  // Returns the names of "properties" and "required", in order.
  std::vector<std::string> listed_properties() const;
  // Returns whether a property may be written that is not listed: a part allows all names, or says
  // which.
  bool are_open() const;
};

// A schema with its references. Throws GrammarError, which names the keyword, for what it does not
// support.
class SchemaParts {
 public:
  // root: must outlive the object.
  explicit SchemaParts(const SchemaJson& root) : root_(root) {}

  // Returns the alternatives of schemas that a value must fit all at once: the value fits one of
  // them. Empty: no value fits.
  std::vector<Conditions> alternatives_of(const Schemas& schemas);
  // Returns whether a value fits a schema.
  bool fits(const SchemaJson& value, const SchemaJson& schema);

  // A schema that no value fits, and one that all values fit.
  static const SchemaJson& none();
  static const SchemaJson& any();

 private:
  // The parts of one alternative. `required`: names that must be written so that alternatives of a
  // "oneOf" exclude each other.
  struct Alternative {
    Schemas parts;
    std::vector<std::string> required;
  };

  void check_keywords(const SchemaJson& schema) const;
  const SchemaJson& target_of(const SchemaJson& schema) const;
  // Adds a schema to each of the alternatives.
  std::vector<Alternative> expand(const SchemaJson& schema, std::vector<Alternative> before);
  std::vector<Alternative> expand_any(const SchemaJson& list,
                                      const std::vector<Alternative>& before);
  std::vector<Alternative> expand_one(const SchemaJson& list,
                                      const std::vector<Alternative>& before);
  Conditions conditions_of(const Alternative& alternative) const;
  // Returns whether no value that is written for `written` fits `other`. If that needs a property
  // that may be missing, adds it to written.required.
  bool excludes(Conditions& written, const Conditions& other, int depth);
  bool excludes_as_object(Conditions& written, const Conditions& other, int depth);
  // Returns whether no value fits both of these.
  bool differ(const Schemas& written, const Schemas& others, int depth);
  bool fits_part(const SchemaJson& value, const SchemaJson& schema);
  bool fits_object(const SchemaJson& value, const Conditions& conditions);

  const SchemaJson& root_;
  // Thrown for a schema that is being expanded already, while alternatives are compared.
  struct IsOpen {};
  std::set<const SchemaJson*> open_;  // schemas that are being expanded
  int compared_ = 0;                  // above 0 while alternatives are compared
};

// Reads a count, such as "minItems". Throws GrammarError if it is none.
int64_t count_of(const SchemaJson& schema, const char* name, int64_t otherwise);
// Throws GrammarError: the schema has `what`.
[[noreturn]] void refuse_schema(const std::string& what);

}  // namespace colossal::text::grammar
