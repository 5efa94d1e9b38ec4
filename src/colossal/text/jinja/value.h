// Values of a Jinja template and the operations on them, with Python's semantics.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "colossal/base/error.h"

namespace colossal::text::jinja {

// Thrown if a template is invalid or uses a value wrongly. Class Template adds the template's line,
// "line 12: reason", if the error belongs to a line and is not a TemplateRefusal.
class TemplateError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

// Thrown if the template calls raise_exception(). what() is the message of this call, without the
// template's line.
class TemplateRefusal : public TemplateError {
 public:
  using TemplateError::TemplateError;
};

class Interpreter;
class Value;
struct List;
struct Dict;
struct Namespace;
struct Loop;

// Python's None.
struct None {
  bool operator==(const None&) const = default;
};

// The value of a missing name or attribute. Prints as "". Most other uses are errors.
struct Undefined {
  std::string name;  // of what is missing, for error messages
};

// The evaluated arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// A function, method or macro that a template can call.
struct Function {
  std::string name;
  std::function<Value(Interpreter&, const Arguments&)> call;
};

// A value of any type. Strings are valid UTF-8. Lists and dicts are immutable, as in the sandbox of
// `transformers`; namespaces are mutable. Copies share strings, lists, dicts and namespaces.
class Value {
 public:
  // Python's None. The pointers that the other constructors take must not be null.
  Value() : data_(None{}) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(std::shared_ptr<const List> list) : data_(std::move(list)) {}
  Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  Value(std::shared_ptr<Namespace> space) : data_(std::move(space)) {}
  Value(std::shared_ptr<Loop> loop) : data_(std::move(loop)) {}
  Value(std::shared_ptr<const Function> function) : data_(std::move(function)) {}
  // name: what is missing, for error messages.
  static Value undefined(std::string name);
  // Converts a JSON value. Throws TemplateError if its lists and dicts are nested too deeply or
  // have too many values (see Extent).
  static Value from_json(const nlohmann::ordered_json& json);

  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_undefined() const {
    return std::holds_alternative<std::shared_ptr<const Undefined>>(data_);
  }
  bool is_boolean() const { return std::holds_alternative<bool>(data_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_boolean() || is_integer() || is_float(); }
  bool is_string() const {
    return std::holds_alternative<std::shared_ptr<const std::string>>(data_);
  }

  int64_t integer() const;            // requires is_integer() or is_boolean()
  double number() const;              // requires is_number()
  const std::string& string() const;  // requires is_string()
  // These five return null if the value has another type. Lists include tuples and generators.
  const List* list() const;
  const Dict* dict() const;
  Namespace* space() const;
  Loop* loop() const;
  const Function* function() const;
  // Returns the name of what is missing. Requires is_undefined().
  const std::string& undefined_name() const;

  bool truth() const;             // Python's bool(); false if undefined
  std::string type_name() const;  // Python's name of the type, such as "str"
  std::string str() const;        // Python's str(); "" if undefined
  std::string repr() const;       // Python's repr()

 private:
  std::variant<None, bool, int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const Undefined>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, std::shared_ptr<Loop>,
               std::shared_ptr<const Function>>
      data_;
};

// The size of a value. make_list() and make_dict() limit both fields, so that a template cannot
// exhaust memory.
struct Extent {
  int depth = 0;  // nesting depth of lists and dicts; 0 for other values
  // Number of values in the value, itself included, plus the bytes of their strings. A value that
  // occurs twice counts twice.
  int64_t size = 1;
};
// Returns the extent of a value. Takes constant time, because a list or dict stores its extent.
Extent extent_of(const Value& value);

// A list, tuple or generator. A generator is the result of filters such as `map`: its elements are
// already computed.
struct List {
  enum class Kind { list, tuple, generator };
  std::vector<Value> items;
  Kind kind = Kind::list;
  Extent extent = {};  // of this list; make_list() sets it
};

// Returns `a == b`. Numbers and booleans are equal if their numbers are (1 == 1.0 == true). Other
// values are equal if they have the same type and equal contents; namespaces, loops and functions
// equal only themselves.
bool equal(const Value& a, const Value& b);

// Hashes keys of a dict. Equal values have equal hashes. Takes time linear in the size of the
// value.
struct ValueHash {
  size_t operator()(const Value& value) const;
};
// Compares keys of a dict.
struct ValueEqual {
  bool operator()(const Value& a, const Value& b) const { return equal(a, b); }
};

// A dict. Entries are in order of insertion.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // key and value
  // Index in `entries` by key.
  std::unordered_map<Value, size_t, ValueHash, ValueEqual> places;
  Extent extent = {};  // of this dict; make_dict() sets it
  // Returns the value of the key; null if there is none.
  const Value* find(const Value& key) const;
};

// What the template function namespace() returns: variables that inner blocks can set.
struct Namespace {
  std::map<std::string, Value, std::less<>> entries;
  // Returns the value of the variable; null if there is none.
  const Value* find(std::string_view name) const;
};

// The variable `loop` within a {% for %}.
struct Loop {
  std::shared_ptr<const List> items;
  int64_t index = 0;  // of the current item, from 0
  int64_t depth = 0;  // loop.depth0; always 0, because loops cannot be recursive
  Value last_changed = Value::undefined("changed");  // last arguments of loop.changed()
};

// Returns a list of the items. Throws TemplateError if the list exceeds the limits on Extent.
Value make_list(std::vector<Value> items, List::Kind kind = List::Kind::list);
// Returns a dict of the (key, value) pairs. If keys are equal, the last value is kept. Throws
// TemplateError if the dict exceeds the limits on Extent, or if require_hashable() refuses a key.
Value make_dict(std::vector<std::pair<Value, Value>> entries);
// Throws TemplateError unless `key` can be a key of a dict. Refused are lists and dicts, which
// Python cannot hash, generators, NaN, and tuples that contain one of these.
void require_hashable(const Value& key);
// Returns a negative number if a < b, a positive number if a > b, otherwise 0 (also if a or b is
// NaN). Throws TemplateError if Python cannot order the two types.
int compare(const Value& a, const Value& b);

// Returns a new list of what {% for %} iterates over: the elements of a list, the keys of a dict,
// or the characters of a string; an empty list for undefined. Does not set the `extent` of the new
// list. Throws TemplateError for any other type.
std::shared_ptr<const List> iterate(const Value& value);

// Returns the value as Python's json.dumps() formats it. ensure_ascii: escape characters outside of
// ASCII. indent: spaces per nesting level; negative: all on one line. item_end, key_end: the
// separators after an item and after a key. sort_keys: order the entries of dicts by key.
// Stops once the result has more than `max_bytes` bytes, so that the caller can refuse the result.
// Throws TemplateError for a value that JSON does not have.
std::string to_json(const Value& value, bool ensure_ascii, int indent, std::string_view item_end,
                    std::string_view key_end, bool sort_keys, size_t max_bytes);

}  // namespace colossal::text::jinja
