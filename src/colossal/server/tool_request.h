// The tools of a chat request, and which tools the answer may call.
#pragma once

#include <optional>
#include <string>

#include "colossal/server/compiled_rule.h"
#include "colossal/server/json_body.h"
#include "colossal/text/answer/tool_call_form.h"

namespace colossal::server {

// The fields `tools`, `tool_choice` and `parallel_tool_calls` of a request, or the older fields
// `functions` and `function_call`.
struct ToolRequest {
  enum class Choice {
    none,       // no tools, or the answer may not call tools
    automatic,  // the model decides
    required,   // at least one tool is called
    named       // the tool `name` is called
  };

  Json tools = nullptr;  // for the chat template; null if no tool may be called
  Choice choice = Choice::none;
  std::string name;      // the tool to call if `choice` is `named`
  bool parallel = true;  // allows several calls in an answer
  // The request has the older fields `functions` and `function_call`, and its answer a
  // `function_call`.
  bool are_functions = false;

  // Returns the rule that makes the answer a tool call; nullopt unless the choice is `required` or
  // `named`.
  std::optional<TextRule> rule() const;
  // Returns the syntax of tool calls in the answer: for `none`, ToolCallForm::none; for
  // `automatic`, of_model; for `required`, list; for `named`, arguments. of_model: the syntax of
  // the model.
  text::ToolCallForm form(text::ToolCallForm of_model) const;
};

// Reads the fields of ToolRequest from a request. Throws ApiError 400 if a field is invalid.
ToolRequest read_tools(Fields& fields);

// Returns the field "messages" of a request, for the chat template. Messages with "function_call"
// and of the role "function" become those of tools. If the arguments of a tool call
// are a string that contains a JSON object, this object replaces the string. Throws ApiError 400 if
// the messages are invalid.
Json read_messages(Fields& fields);

}  // namespace colossal::server
