// Reads the evaluated arguments of a call, given by position or by name, inside the functions,
// methods, filters and tests that are built in.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "colossal/text/jinja/value.h"

namespace colossal::text::jinja {

// The constructor assigns arguments to parameters; the accessors then return the arguments by
// index. In all accessors, `which` is an index into the constructor's `parameters`, and `otherwise`
// is the result if the argument of this parameter is missing. Returned references and texts are
// parts of the constructor's `arguments`, or are `otherwise`.
class ArgumentReader {
 public:
  // function: name of the called function, for error messages. parameters: names in order of
  // position. required: number of parameters, from the first, whose arguments must be given.
  // `arguments`, and the texts of `function` and `parameters`, must outlive the reader.
  // Throws TemplateError if a required argument is missing, if there are too many arguments, or if
  // a parameter name is unknown.
  ArgumentReader(std::string_view function, const Arguments& arguments,
                 std::vector<std::string_view> parameters, size_t required = 0);

  bool has(size_t which) const { return values_[which] != nullptr; }  // was given
  // Returns the argument; has(which) must be true.
  const Value& operator[](size_t which) const { return *values_[which]; }
  // Returns the argument, or a reference to `otherwise`.
  const Value& value(size_t which, const Value& otherwise) const {
    return has(which) ? *values_[which] : otherwise;
  }
  // Returns whether the argument is true in Python's sense.
  bool truth(size_t which, bool otherwise) const {
    return has(which) ? values_[which]->truth() : otherwise;
  }
  // Return the argument. integer() throws TemplateError if it is neither an integer nor a boolean,
  // string() if it is not a string.
  int64_t integer(size_t which, int64_t otherwise) const;
  std::string_view string(size_t which, std::string_view otherwise = "") const;
  // Returns the argument; nullopt if it is missing or None. Throws TemplateError if it has another
  // type than string.
  std::optional<std::string_view> optional_string(size_t which) const;

 private:
  // Throws TemplateError: the argument has the wrong type. wanted: such as "a string".
  [[noreturn]] void refuse(size_t which, std::string_view wanted) const;

  std::string_view function_;
  std::vector<std::string_view> parameters_;
  std::vector<const Value*> values_;  // by parameter; null: missing
};

}  // namespace colossal::text::jinja
