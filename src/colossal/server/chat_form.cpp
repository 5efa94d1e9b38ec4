#include "colossal/server/chat_form.h"

#include <nlohmann/json.hpp>

namespace colossal::server {
namespace {

bool reads_parts(const text::ChatTemplate& chat_template) {
  const auto rendered = [&](const nlohmann::ordered_json& content) {
    nlohmann::ordered_json message = {{"role", "user"}};
    message["content"] = content;
    return chat_template.render(nlohmann::ordered_json::array({message}), {}).text;
  };
  nlohmann::ordered_json part = {{"type", "text"}};
  part["text"] = "probe";
  try {
    return rendered(nlohmann::ordered_json::array({part})) == rendered("probe");
  } catch (const text::jinja::TemplateError&) {
    return false;
  }
}

}  // namespace

ChatForm read_chat_form(const text::ModelFolder& folder, const text::Tokenizer& tokenizer) {
  ChatForm form{.chat_template = folder.chat_template(),
                .end_tokens = folder.end_tokens(tokenizer)};
  if (!form.chat_template) return form;
  form.chat_template->protect(tokenizer.special_tokens());
  form.reads_parts = reads_parts(*form.chat_template);
  return form;
}

}  // namespace colossal::server
