// Reads the arguments of a call by position or name.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "colossal/text/jinja/value.h"

namespace colossal::text::jinja {

// In all functions, `which` is an index into the constructor's `parameters`, and `otherwise` is the
// result if this argument is missing.
class ArgumentReader {
 public:
  // function: its name, for error messages. arguments: must outlive the reader, like `function`.
  // parameters: names in order of position; the first `required` must be given. Throws
  // TemplateError if one of these is missing, for too many arguments, and for unknown names.
  ArgumentReader(std::string_view function, const Arguments& arguments,
                 std::vector<std::string_view> parameters, size_t required = 0);

  bool has(size_t which) const { return values_[which] != nullptr; }
  const Value& operator[](size_t which) const { return *values_[which]; }
  const Value& value(size_t which, const Value& otherwise) const {
    return has(which) ? *values_[which] : otherwise;
  }
  bool truth(size_t which, bool otherwise) const {
    return has(which) ? values_[which]->truth() : otherwise;
  }
  // Throw TemplateError if the argument has another type.
  int64_t integer(size_t which, int64_t otherwise) const;
  std::string_view string(size_t which, std::string_view otherwise = "") const;
  // Returns nullopt if missing or None.
  std::optional<std::string_view> optional_string(size_t which) const;

 private:
  [[noreturn]] void refuse(size_t which, std::string_view wanted) const;

  std::string_view function_;
  std::vector<std::string_view> parameters_;
  std::vector<const Value*> values_;
};

}  // namespace colossal::text::jinja
