// Reads values that models write in notations other than JSON: Python's literals, and Gemma's.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace colossal::text {

// A call in one of these notations, with its arguments as a JSON object.
struct LiteralCall {
  std::string name;
  std::string arguments;
};

// Returns the calls in a Python expression: name(key=value, ...), several of them separated by line
// breaks or ";", or a list [name(...), ...]. Values are Python literals; a call may be the argument
// of print(). Returns nullopt for anything else, such as positional arguments.
std::optional<std::vector<LiteralCall>> read_python_calls(std::string_view text);

// Returns the call in Gemma's notation: call:name{key:value, ...}. Values are numbers, true, false,
// null, [lists], {objects}, and texts between two `quote`s. Returns nullopt for anything else.
std::optional<LiteralCall> read_gemma_call(std::string_view text, std::string_view quote);

// Returns the value of a Python literal that is not JSON: True, False, None, or a text in single
// quotes, also within lists and dicts; nullopt if `text` is no literal.
std::optional<nlohmann::ordered_json> read_python_literal(std::string_view text);

}  // namespace colossal::text
