// The tools of a chat request, and which tools the answer may call.
#pragma once

#include <optional>
#include <string>

#include "colossal/server/json_body.h"
#include "colossal/server/text_constraint.h"
#include "colossal/text/tool_call_parser.h"

namespace colossal::server {

struct ToolRequest {
  enum class Choice {
    none,       // no tools, or the answer may not call tools
    automatic,  // the model decides
    required,   // at least one tool is called
    named       // the tool `name` is called
  };

  Json tools = nullptr;  // passed to the chat template; null: no tools
  Choice choice = Choice::none;
  std::string name;      // tool to call if choice is `named`
  bool parallel = true;  // allows several calls in an answer

  // Returns the constraint on the answer; nullopt if the answer is free.
  std::optional<TextRule> rule() const;
  // Returns the format in which the answer contains tool calls. of_model: the format of the model's
  // chat template.
  text::ToolCallForm form(text::ToolCallForm of_model) const;
};

// Throws ApiError 400 if `tools` or `tool_choice` is invalid.
ToolRequest read_tools(Fields& fields);

// Returns the messages of a request for the chat template. Arguments of tool calls, which are
// strings of JSON, are parsed to objects. Throws ApiError 400 if the messages are invalid.
Json read_messages(Fields& fields);

}  // namespace colossal::server
