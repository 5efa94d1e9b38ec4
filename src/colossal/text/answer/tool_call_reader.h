// Reads the calls in a part of an answer that holds nothing else.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/answer/tool_call_form.h"

namespace colossal::text {

struct ToolCall {
  std::string name;
  std::string arguments;  // the text of a JSON object
  bool operator==(const ToolCall&) const = default;
};

// Returns the calls in `section`, which begins with a marker of the form, if the form has one, and
// ends with the end marker, which may be missing. Returns nullopt if the section is not whole, or
// is invalid: a tool without a name, or arguments that are no JSON object. tools: the tools of the
// request, in OpenAI's form; null: unknown. Forms that write arguments without quotes need the
// tools' schemas to tell the text 7 from the number 7; without a schema, what is JSON is read as
// JSON.
std::optional<std::vector<ToolCall>> read_tool_calls(ToolCallForm form, std::string_view section,
                                                     const nlohmann::ordered_json& tools);

}  // namespace colossal::text
