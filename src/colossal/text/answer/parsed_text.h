// What parsers of answers return: the parts of an answer's text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace colossal::text {

// What one push() or finish() adds to one tool call.
struct ToolCallDelta {
  size_t call = 0;                  // index of the call in the answer
  std::optional<std::string> name;  // name of the tool; set only where the call begins
  std::string arguments;            // the next part of the JSON text of the arguments
};

// The result of one push() or finish().
struct ParsedText {
  std::string reasoning;  // what the model wrote for itself before its answer
  std::string content;    // text outside of calls
  std::vector<ToolCallDelta> calls;
  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
};

}  // namespace colossal::text
