#include "colossal/text/answer/tool_call_form.h"

#include <algorithm>
#include <array>
#include <map>

namespace colossal::text {
namespace {

struct CallFormName {
  ToolCallForm form;
  std::string_view name;
};
constexpr std::array<CallFormName, 16> kCallCallFormNames{
    {{ToolCallForm::none, "none"},
     {ToolCallForm::hermes, "hermes"},
     {ToolCallForm::llama_json, "llama3_json"},
     {ToolCallForm::mistral, "mistral"},
     {ToolCallForm::harmony, "harmony"},
     {ToolCallForm::deepseek, "deepseek"},
     {ToolCallForm::kimi, "kimi_k2"},
     {ToolCallForm::glm, "glm45"},
     {ToolCallForm::qwen_xml, "qwen3_coder"},
     {ToolCallForm::gemma, "gemma"},
     {ToolCallForm::tool_code, "tool_code"},
     {ToolCallForm::python_list, "pythonic"},
     {ToolCallForm::marked_python, "lfm2"},
     {ToolCallForm::command_r, "command_r"},
     {ToolCallForm::command_r7b, "command_r7b"},
     {ToolCallForm::phi, "phi4_mini"}}};

}  // namespace

ToolCallForm detect_tool_call_form(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != text.npos; };
  using Form = ToolCallForm;
  // These markers stand in templates for nothing else than calls.
  if (has("<｜tool▁call▁begin｜>")) return Form::deepseek;
  if (has("<|tool_call_argument_begin|>")) return Form::kimi;
  if (!has("tools")) return Form::none;
  if (has("<|channel|>") && has("<|message|>")) return Form::harmony;
  if (has("<start_function_call>") || has("<|tool_call>call:")) return Form::gemma;
  if (has("<tool_call>")) {
    return has("<arg_key>") ? Form::glm : has("<function=") ? Form::qwen_xml : Form::hermes;
  }
  if (has("[TOOL_CALLS]")) return Form::mistral;
  if (has("<|START_ACTION|>")) return Form::command_r7b;
  if (has("Action:") && has("tool_name")) return Form::command_r;
  if (has("<|tool_call_start|>")) return Form::marked_python;
  if (has("<|tool_call|>") || has("<|/tool|>")) return Form::phi;
  if (has("\"parameters\"") && (has("<|python_tag|>") || has("ipython"))) return Form::llama_json;
  if (has("[func_name1(")) return Form::python_list;
  if (has("tool_code")) return Form::tool_code;
  return Form::none;
}

std::string_view name_of(ToolCallForm form) {
  const auto found = std::ranges::find(kCallCallFormNames, form, &CallFormName::form);
  return found == kCallCallFormNames.end() ? "" : found->name;
}

std::optional<ToolCallForm> tool_call_form_of(std::string_view name) {
  const auto found = std::ranges::find(kCallCallFormNames, name, &CallFormName::name);
  if (found == kCallCallFormNames.end()) return std::nullopt;
  return found->form;
}

std::string names_of_tool_call_forms() {
  std::string names;
  for (const CallFormName& each : kCallCallFormNames) {
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  }
  return names;
}

const std::vector<CallMarkers>& call_markers(ToolCallForm form) {
  using Form = ToolCallForm;
  static const std::map<Form, std::vector<CallMarkers>> kMarkers{
      {Form::hermes, {{"<tool_call>", "</tool_call>"}}},
      {Form::llama_json, {{"<|python_tag|>", ""}}},
      {Form::mistral, {{"[TOOL_CALLS]", ""}}},
      {Form::deepseek,
       {{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
        {"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"}}},
      {Form::kimi,
       {{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"},
        {"<|tool_call_begin|>", "<|tool_call_end|>"}}},
      {Form::glm, {{"<tool_call>", "</tool_call>"}}},
      {Form::qwen_xml, {{"<tool_call>", "</tool_call>"}, {"<function=", "</function>"}}},
      {Form::gemma,
       {{"<start_function_call>", "<end_function_call>"}, {"<|tool_call>", "<tool_call|>"}}},
      {Form::tool_code, {{"```tool_code", "```"}}},
      {Form::marked_python, {{"<|tool_call_start|>", "<|tool_call_end|>"}}},
      {Form::command_r, {{"Action: ```json", "```"}, {"Action:```json", "```"}}},
      {Form::command_r7b, {{"<|START_ACTION|>", "<|END_ACTION|>"}}},
      {Form::phi, {{"<|tool_call|>", "<|/tool_call|>"}, {"functools", ""}}}};
  static const std::vector<CallMarkers> kNone;
  const auto found = kMarkers.find(form);
  return found == kMarkers.end() ? kNone : found->second;
}

std::vector<std::string> tool_call_markers(ToolCallForm form) {
  std::vector<std::string> texts;
  for (const CallMarkers& markers : call_markers(form)) {
    texts.emplace_back(markers.begin);
    if (!markers.end.empty()) texts.emplace_back(markers.end);
  }
  const auto add = [&](std::initializer_list<const char*> more) {
    texts.insert(texts.end(), more.begin(), more.end());
  };
  switch (form) {
    case ToolCallForm::mistral:
      add({"[ARGS]", "[CALL_ID]"});
      break;
    case ToolCallForm::deepseek:
      add({"<｜tool▁sep｜>"});
      break;
    case ToolCallForm::kimi:
      add({"<|tool_call_argument_begin|>"});
      break;
    case ToolCallForm::glm:
      add({"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"});
      break;
    case ToolCallForm::gemma:
      add({"<escape>", "<|\"|>"});
      break;
    case ToolCallForm::harmony:
      add({"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>",
           "<|return|>"});
      break;
    default:
      break;
  }
  return texts;
}

}  // namespace colossal::text
