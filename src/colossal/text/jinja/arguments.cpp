#include "colossal/text/jinja/arguments.h"

#include <algorithm>

namespace colossal::text::jinja {

ArgumentReader::ArgumentReader(std::string_view function, const Arguments& arguments,
                               std::vector<std::string_view> parameters, size_t required)
    : function_(function), parameters_(std::move(parameters)), values_(parameters_.size()) {
  if (arguments.positional.size() > parameters_.size()) {
    throw TemplateError(fmt::format("{}() takes at most {} arguments and got {}", function,
                                    parameters_.size(), arguments.positional.size()));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::ranges::find(parameters_, name);
    if (found == parameters_.end()) {
      throw TemplateError(fmt::format("{}() has no argument '{}'", function, name));
    }
    values_[found - parameters_.begin()] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!values_[i]) {
      throw TemplateError(fmt::format("{}() needs the argument '{}'", function, parameters_[i]));
    }
  }
}

void ArgumentReader::refuse(size_t which, std::string_view wanted) const {
  throw TemplateError(fmt::format("{}(): the argument '{}' must be {}, not of type {}", function_,
                                  parameters_[which], wanted, values_[which]->type_name()));
}

int64_t ArgumentReader::integer(size_t which, int64_t otherwise) const {
  if (!has(which)) return otherwise;
  if (!values_[which]->is_integer() && !values_[which]->is_boolean()) refuse(which, "an integer");
  return values_[which]->integer();
}

std::string_view ArgumentReader::string(size_t which, std::string_view otherwise) const {
  if (!has(which)) return otherwise;
  if (!values_[which]->is_string()) refuse(which, "a string");
  return values_[which]->string();
}

std::optional<std::string_view> ArgumentReader::optional_string(size_t which) const {
  if (!has(which) || values_[which]->is_none()) return {};
  return string(which);
}

}  // namespace colossal::text::jinja
