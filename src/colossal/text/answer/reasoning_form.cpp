#include "colossal/text/answer/reasoning_form.h"

#include <algorithm>
#include <array>

namespace colossal::text {
namespace {

struct ReasoningName {
  ReasoningForm form;
  std::string_view name;
};
// The first name of a form is the one that is shown.
constexpr std::array<ReasoningName, 11> kReasoningNames{
    {{ReasoningForm::none, "none"},
     {ReasoningForm::think, "think"},
     {ReasoningForm::mistral, "mistral"},
     {ReasoningForm::cohere, "cohere"},
     {ReasoningForm::gemma, "gemma"},
     {ReasoningForm::seed, "seed_oss"},
     {ReasoningForm::harmony, "harmony"},
     {ReasoningForm::think, "qwen3"},
     {ReasoningForm::think, "deepseek_r1"},
     {ReasoningForm::think, "glm45"},
     {ReasoningForm::harmony, "openai_gptoss"}}};
constexpr size_t kShownReasoningNames = 7;

std::string_view without_spaces_at_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \n\t\r") + 1);
}

}  // namespace

ReasoningForm detect_reasoning_form(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != text.npos; };
  if (has("<|channel|>") && has("<|message|>")) return ReasoningForm::harmony;
  for (const ReasoningForm form :
       {ReasoningForm::think, ReasoningForm::seed, ReasoningForm::mistral, ReasoningForm::cohere}) {
    if (has(reasoning_markers(form).end)) return form;
  }
  return has("<|channel>thought") ? ReasoningForm::gemma : ReasoningForm::none;
}

std::string_view name_of(ReasoningForm form) {
  return std::ranges::find(kReasoningNames, form, &ReasoningName::form)->name;
}

std::optional<ReasoningForm> reasoning_form_of(std::string_view name) {
  const auto found = std::ranges::find(kReasoningNames, name, &ReasoningName::name);
  if (found == kReasoningNames.end()) return std::nullopt;
  return found->form;
}

std::string names_of_reasoning_forms() {
  std::string names;
  for (size_t i = 0; i < kShownReasoningNames; ++i) {
    names += (names.empty() ? "" : ", ") + std::string(kReasoningNames[i].name);
  }
  return names;
}

CallMarkers reasoning_markers(ReasoningForm form) {
  switch (form) {
    case ReasoningForm::think:
      return {"<think>", "</think>"};
    case ReasoningForm::mistral:
      return {"[THINK]", "[/THINK]"};
    case ReasoningForm::cohere:
      return {"<|START_THINKING|>", "<|END_THINKING|>"};
    case ReasoningForm::gemma:
      return {"<|channel>thought", "<channel|>"};
    case ReasoningForm::seed:
      return {"<seed:think>", "</seed:think>"};
    case ReasoningForm::none:
    case ReasoningForm::harmony:
      break;
  }
  return {};
}

std::vector<std::string> texts_of_reasoning_markers(ReasoningForm form) {
  if (form == ReasoningForm::none) return {};
  if (form == ReasoningForm::harmony) return tool_call_markers(ToolCallForm::harmony);
  const CallMarkers markers = reasoning_markers(form);
  // Gemma's marker is a special token and an ordinary word.
  const std::string_view begin = form == ReasoningForm::gemma ? "<|channel>" : markers.begin;
  return {std::string(begin), std::string(markers.end)};
}

AnswerBegin begin_of_answer(ReasoningForm form, std::string_view text) {
  const CallMarkers markers = reasoning_markers(form);
  if (markers.begin.empty()) return AnswerBegin::anywhere;
  const std::string_view before = without_spaces_at_end(text);
  if (before.ends_with(markers.begin)) return AnswerBegin::in_reasoning;
  return before.ends_with(markers.end) ? AnswerBegin::after_reasoning : AnswerBegin::anywhere;
}

}  // namespace colossal::text
