// The tools of a request for chat, and which of them its answer calls.
#pragma once

#include <optional>
#include <string>

#include "colossal/server/json_body.h"
#include "colossal/server/text_constraint.h"
#include "colossal/text/tool_call_parser.h"

namespace colossal::server {

struct ToolRequest {
  enum class Choice {
    none,       // there are no tools, or none is to be called
    automatic,  // the model decides
    required,   // one at least is called
    named       // that one is called
  };

  Json tools = nullptr;  // for the template; null: none
  Choice choice = Choice::none;
  std::string name;      // of the one that is called
  bool parallel = true;  // several calls in an answer

  // What the answer must be; nothing where the model decides.
  std::optional<TextRule> rule() const;
  // The form in which calls are found in the answer. of_model: the form that the model writes by
  // itself.
  text::ToolCallForm form(text::ToolCallForm of_model) const;
};

// Throws ApiError.
ToolRequest read_tools(Fields& fields);

// The messages of a request for a template: arguments of calls, which are JSON in strings, as
// objects. Throws ApiError.
Json read_messages(Fields& fields);

}  // namespace colossal::server
