#include "colossal/text/answer/tool_call_parser.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "colossal/text/answer/call_sections.h"
#include "colossal/text/answer/forced_calls.h"

namespace colossal::text {
namespace {

std::unique_ptr<ToolCallParser::Implementation> make(ToolCallForm form, std::string tool,
                                                     nlohmann::ordered_json tools) {
  if (form == ToolCallForm::list) return std::make_unique<ForcedCalls>(std::nullopt);
  if (form == ToolCallForm::arguments) return std::make_unique<ForcedCalls>(std::move(tool));
  return std::make_unique<CallSections>(form, std::move(tools));
}

}  // namespace

ToolCallParser::ToolCallParser(ToolCallForm form, std::string tool, nlohmann::ordered_json tools)
    : implementation_(make(form, std::move(tool), std::move(tools))) {}

ToolCallParser::~ToolCallParser() = default;
ToolCallParser::ToolCallParser(ToolCallParser&&) noexcept = default;

ParsedText ToolCallParser::push(std::string_view text) {
  ParsedText out;
  held_ += text;
  std::string_view rest = held_;
  while (!rest.empty() && implementation_->read(rest, out)) {
  }
  held_.erase(0, held_.size() - rest.size());
  return out;
}

ParsedText ToolCallParser::finish() {
  ParsedText out;
  implementation_->finish(std::exchange(held_, ""), out);
  return out;
}

size_t ToolCallParser::num_calls() const {
  return implementation_->begun;
}

size_t ToolCallParser::num_whole_calls() const {
  return implementation_->whole;
}

}  // namespace colossal::text
