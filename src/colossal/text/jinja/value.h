// Values of a Jinja template, with Python's semantics.
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

// The template is invalid, or uses a value wrongly. Messages that leave Template have the form
// "line 12: reason".
class TemplateError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

// The template called raise_exception(). what() is its message, without a line number.
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

struct None {
  bool operator==(const None&) const = default;
};

// A missing name or attribute. Prints as nothing; most other uses are errors.
struct Undefined {
  std::string name;
};

// The evaluated arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Function {
  std::string name;
  std::function<Value(Interpreter&, const Arguments&)> call;
};

// Strings are valid UTF-8. Lists and dicts are immutable, as in the sandbox of `transformers`;
// namespaces are mutable. Copies share strings, lists, dicts and namespaces.
class Value {
 public:
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
  static Value undefined(std::string name);
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
  // The following five return null if the value has another type.
  const List* list() const;
  const Dict* dict() const;
  Namespace* space() const;
  Loop* loop() const;
  const Function* function() const;
  const std::string& undefined_name() const;  // requires is_undefined()

  bool truth() const;             // Python's bool()
  std::string type_name() const;  // Python's name of the type
  std::string str() const;        // Python's str(); "" if undefined
  std::string repr() const;       // Python's repr()

 private:
  std::variant<None, bool, int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const Undefined>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, std::shared_ptr<Loop>,
               std::shared_ptr<const Function>>
      data_;
};

// How large a value is. depth: nesting depth of lists and dicts. size: the number of values in it
// plus the bytes of its strings; a value that occurs twice counts twice. Limits on both keep a
// template from exhausting memory.
struct Extent {
  int depth = 0;
  int64_t size = 1;
};
Extent extent_of(const Value& value);

struct List {
  enum class Kind { list, tuple, generator };
  std::vector<Value> items;
  Kind kind = Kind::list;
  Extent extent = {};
};

bool equal(const Value& a, const Value& b);

// Equal values have equal hashes. Hashing takes time linear in the size of the value.
struct ValueHash {
  size_t operator()(const Value& value) const;
};
struct ValueEqual {
  bool operator()(const Value& a, const Value& b) const { return equal(a, b); }
};

// Entries are in order of insertion.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<Value, size_t, ValueHash, ValueEqual> places;  // by key: index in `entries`
  Extent extent = {};
  const Value* find(const Value& key) const;  // null if there is none
};

struct Namespace {
  std::map<std::string, Value, std::less<>> entries;
  const Value* find(std::string_view name) const;  // null if there is none
};

// The variable `loop` within a {% for %}.
struct Loop {
  std::shared_ptr<const List> items;
  int64_t index = 0;                                 // of the current item, from 0
  int64_t depth = 0;                                 // loop.depth0: 0, as loops cannot be recursive
  Value last_changed = Value::undefined("changed");  // the last arguments of loop.changed()
};

// make_list() and make_dict() throw TemplateError if the result exceeds the limits on Extent.
Value make_list(std::vector<Value> items, List::Kind kind = List::Kind::list);
// If keys are equal, the last value wins. Also throws like require_hashable() for a key.
Value make_dict(std::vector<std::pair<Value, Value>> entries);
// Throws TemplateError unless `key` can be a key of a dict: if it is a list or a dict, which Python
// cannot hash, a generator, NaN, or a tuple that contains one of these.
void require_hashable(const Value& key);
// Returns a negative number, 0 or a positive number for a < b, a == b, a > b. Throws TemplateError
// if Python cannot order the two types.
int compare(const Value& a, const Value& b);

// Returns what {% for %} iterates over: the elements of a list, the keys of a dict, or the
// characters of a string; empty for undefined. Throws TemplateError for any other type.
std::shared_ptr<const List> iterate(const Value& value);

// Returns the value as json.dumps() of Python formats it. indent: spaces per level; negative: all
// on one line. item_end, key_end: the separators after an item and after a key. Stops once the
// result has more than `max_bytes` bytes, so that a caller can refuse it.
std::string to_json(const Value& value, bool ensure_ascii, int indent, std::string_view item_end,
                    std::string_view key_end, bool sort_keys, size_t max_bytes);

}  // namespace colossal::text::jinja
