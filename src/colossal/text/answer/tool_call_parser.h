// Finds tool calls in a model's answer while the answer is streamed, so that a server can return
// them as the `tool_calls` of OpenAI's API.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "colossal/text/answer/parsed_text.h"
#include "colossal/text/answer/tool_call_form.h"

namespace colossal::text {

// Parses one answer of a model, without its reasoning. Not thread-safe.
class ToolCallParser {
 public:
  // tool: name of the called tool; used only by the form `arguments`. tools: the tools of the
  // request, in OpenAI's form; null: unknown (see read_tool_calls()). form: not `harmony`, which
  // AnswerParser reads.
  ToolCallParser(ToolCallForm form, std::string tool, nlohmann::ordered_json tools);
  ~ToolCallParser();
  ToolCallParser(ToolCallParser&&) noexcept;

  // Adds the next piece of the answer. Returns the content and the calls that are certain now. A
  // call is returned once it is whole and valid; only the forms `list` and `arguments`, which a
  // grammar keeps valid, are returned in parts. Text that begins like a call is held back; if it
  // turns out not to be a call, a later result has all of it as content. White space at the end of
  // content is held back, too, and dropped if a call follows.
  ParsedText push(std::string_view text);
  // Call once at the end of the answer. Returns the text that push() held back.
  ParsedText finish();

  size_t num_calls() const;        // calls that have begun, complete or not
  size_t num_whole_calls() const;  // complete calls

  // Implemented for forms of models, and for the forms `list` and `arguments`.
  class Implementation {
   public:
    virtual ~Implementation() = default;
    // Take text from `rest`, and add what it holds to `out`. read() returns false if it needs more
    // text. finish() takes all that is left.
    virtual bool read(std::string_view& rest, ParsedText& out) = 0;
    virtual void finish(std::string_view rest, ParsedText& out) = 0;
    size_t begun = 0, whole = 0;  // numbers of calls
  };

 private:
  std::unique_ptr<Implementation> implementation_;
  std::string held_;  // text that was pushed and that is not read
};

}  // namespace colossal::text
