// The routes of ollama's API (https://docs.ollama.com/api). One model is served, which is always
// loaded.
#include "colossal/server/api.h"
#include "colossal/server/ollama_request.h"
#include "colossal/server/ollama_writer.h"

namespace colossal::server {
namespace {

// The version of ollama whose API this is: clients refuse older ones.
constexpr const char* kOllamaVersion = "0.12.0";

// keep_alive = 0 asks to unload the model.
const char* load_reason(const Json& body) {
  const auto keep_alive = body.find("keep_alive");
  const bool unloads = keep_alive != body.end() && (*keep_alive == 0 || *keep_alive == "0");
  return unloads ? "unload" : "load";
}

}  // namespace

void Api::ollama_version(const HttpRequest&, const std::shared_ptr<Reply>& reply) {
  send_json(*reply, {{"version", kOllamaVersion}});
}

Json Api::describe_for_ollama(const std::string& name, int64_t created) const {
  return {{"name", name},
          {"model", name},
          {"modified_at", utc_time(created)},
          {"size", 0},
          {"digest", ""},
          {"details",
           {{"parent_model", name == model_->name() ? "" : model_->name()},
            {"format", "safetensors"},
            {"family", "transformer"},
            {"families", Json::array({"transformer"})},
            {"parameter_size", ""},
            {"quantization_level", ""}}}};
}

void Api::ollama_tags(const HttpRequest&, const std::shared_ptr<Reply>& reply) {
  Json models = Json::array({describe_for_ollama(model_->name(), model_->created())});
  for (const ServedAdapter& adapter : model_->adapters().all()) {
    models.push_back(describe_for_ollama(adapter.name, adapter.created));
  }
  send_json(*reply, {{"models", std::move(models)}});
}

void Api::ollama_show(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  Json body = parse_body(request.body);
  if (!body.contains("model") && body.contains("name")) body["model"] = body["name"];  // old name
  Fields fields(body);
  const std::string name = choose_model(fields, *model_).name;
  Json capabilities = Json::array();
  if (model_->generates()) {
    capabilities.push_back("completion");
    if (model_->tool_call_form() != text::ToolCallForm::none) capabilities.push_back("tools");
    if (model_->reasoning_form() != text::ReasoningForm::none) capabilities.push_back("thinking");
  } else if (!model_->labels()) {
    capabilities.push_back("embedding");
  }
  const text::ChatTemplate* chat_template = model_->chat_template();
  Json json = describe_for_ollama(name, model_->created());
  send_json(*reply, {{"license", ""},
                     {"modelfile", ""},
                     {"parameters", ""},
                     {"template", chat_template ? chat_template->source() : ""},
                     {"details", json["details"]},
                     {"model_info",
                      {{"general.architecture", "transformer"},
                       {"transformer.context_length", model_->max_length()},
                       {"transformer.vocab_size", model_->vocabulary()}}},
                     {"capabilities", std::move(capabilities)},
                     {"modified_at", json["modified_at"]}});
}

void Api::ollama_chat(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  require_decoder();
  const Json body = parse_body(request.body);
  if (is_ollama_load(body)) {
    Fields fields(body);
    return send_json(*reply, ollama_loaded(choose_model(fields, *model_).name, /*is_chat=*/true,
                                           load_reason(body)));
  }
  const TranslatedRequest chat = translate_ollama_chat(body);
  log_unknown_fields(chat.unknown_fields);
  run(
      read_chat_request(chat.body, *model_, rules_, TokenLimit::at_most),
      [this](const GenerationRequest& read) {
        return std::make_unique<OllamaWriter>(/*is_chat=*/true, read, *model_);
      },
      reply);
}

void Api::ollama_generate(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  require_decoder();
  const Json body = parse_body(request.body);
  if (is_ollama_load(body)) {
    Fields fields(body);
    return send_json(*reply, ollama_loaded(choose_model(fields, *model_).name, /*is_chat=*/false,
                                           load_reason(body)));
  }
  const auto [is_chat, translated] =
      translate_ollama_generation(body, model_->chat_template() != nullptr);
  log_unknown_fields(translated.unknown_fields);
  run(
      is_chat ? read_chat_request(translated.body, *model_, rules_, TokenLimit::at_most)
              : read_completion_request(translated.body, *model_, rules_, TokenLimit::at_most),
      [this](const GenerationRequest& read) {
        return std::make_unique<OllamaWriter>(/*is_chat=*/false, read, *model_);
      },
      reply);
}

void Api::ollama_embed(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  if (model_->labels()) require_decoder();  // its states are not what it returns
  const Json body = parse_body(request.body);
  Fields fields(body);
  Json embedding;
  copy_fields(fields, embedding,
              {{"model", "model"}, {"input", "input"}, {"dimensions", "dimensions"}});
  if (fields.boolean("truncate", true)) embedding["truncate_prompt_tokens"] = -1;
  for (const char* name : {"options", "keep_alive"}) fields.ignore(name);
  log_unknown_fields(fields.unknown());
  run(
      read_embedding_request(embedding, *model_),
      [start = std::chrono::steady_clock::now()](const EmbeddingRequest& read,
                                                 const std::vector<std::vector<double>>& results) {
        const std::chrono::duration<double> total = std::chrono::steady_clock::now() - start;
        Json embeddings = Json::array();
        size_t tokens = 0;
        for (size_t which = 0; which < results.size(); ++which) {
          embeddings.push_back(data_of(read, results[which]));
          tokens += read.inputs[which].size();
        }
        return Json{{"model", read.model},
                    {"embeddings", std::move(embeddings)},
                    {"total_duration", static_cast<int64_t>(total.count() * 1e9)},
                    {"load_duration", 0},
                    {"prompt_eval_count", tokens}};
      },
      reply);
}

}  // namespace colossal::server
