#include "colossal/server/api.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "colossal/base/log.h"
#include "colossal/io/json.h"
#include "colossal/server/anthropic_request.h"
#include "colossal/server/anthropic_writer.h"
#include "colossal/server/chat_page.h"
#include "colossal/server/completion.h"
#include "colossal/server/completion_json.h"
#include "colossal/server/responses_request.h"
#include "colossal/server/responses_writer.h"
#include "colossal/server/score_request.h"

namespace colossal::server {
namespace {

constexpr size_t kMaxNotedFields = 100;

std::string required_text(Fields& fields, const char* name) {
  const auto text = fields.string(name);
  if (!text || text->empty()) throw ApiError(400, fmt::format("{} is missing", name), name);
  return *text;
}

// Returns the text that a percent-encoded part of a path means.
std::string percent_decoded(std::string_view encoded) {
  std::string text;
  for (size_t i = 0; i < encoded.size(); ++i) {
    const std::string_view digits = encoded.substr(std::min(i + 1, encoded.size()), 2);
    unsigned byte = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (encoded[i] == '%' && digits.size() == 2 && end.ptr == digits.data() + 2) {
      text += static_cast<char>(byte);
      i += 2;
    } else {
      text += encoded[i];
    }
  }
  return text;
}

ApiError come_again(const char* message, int seconds) {
  ApiError error(503, message);
  error.retry_after = seconds;
  return error;
}

// Counts the answers by status, adds header fields to them, and knows in which form the API of the
// route writes errors.
class RouteReply : public Reply {
 public:
  // metrics: null before the model is loaded; then answers are not counted.
  RouteReply(std::shared_ptr<Reply> reply, ErrorForm error_form, Headers headers, Metrics* metrics)
      : Reply(error_form),
        reply_(std::move(reply)),
        headers_(std::move(headers)),
        metrics_(metrics) {}
  void send(int status, std::string_view content_type, std::string body, Headers headers) override {
    if (metrics_) metrics_->answered(status);
    headers.insert(headers.end(), headers_.begin(), headers_.end());
    reply_->send(status, content_type, std::move(body), std::move(headers));
  }
  void begin_stream(std::string_view content_type, Headers headers) override {
    headers.insert(headers.end(), headers_.begin(), headers_.end());
    reply_->begin_stream(content_type, std::move(headers));
  }
  void write_part(std::string_view part) override { reply_->write_part(part); }
  void end_stream() override {
    if (metrics_) metrics_->answered(200);
    reply_->end_stream();
  }
  void on_abandoned(std::function<void()> action) override {
    reply_->on_abandoned(std::move(action));
  }

 private:
  std::shared_ptr<Reply> reply_;
  const Headers headers_;
  Metrics* metrics_;
};

}  // namespace

struct Api::Route {
  std::string_view method, path;
  Action action;
  // open: allowed without a key and before the model is loaded. administrative: requires the admin
  // key if there is one.
  enum class For { clients, open, administrators } audience = For::clients;
  bool is_prefix = false;  // matches all paths that begin with `path`
  ErrorForm errors = ErrorForm::openai;
};

std::span<const Api::Route> Api::routes() {
  using enum Route::For;
  static constexpr auto kRoutes = std::to_array<Route>({
      {"GET", "/", &Api::page, open},
      {"GET", "/health", &Api::health, open},
      {"GET", "/metrics", &Api::metrics},
      {"GET", "/v1/models", &Api::models},
      {"GET", "/v1/models/", &Api::models, clients, true},
      {"POST", "/v1/completions", &Api::completions},
      {"POST", "/v1/chat/completions", &Api::chat_completions},
      {"POST", "/v1/embeddings", &Api::embeddings},
      {"POST", "/v1/responses", &Api::responses},
      {"POST", "/v1/messages", &Api::messages, clients, false, ErrorForm::anthropic},
      {"POST", "/v1/messages/count_tokens", &Api::count_tokens, clients, false,
       ErrorForm::anthropic},
      {"GET", "/api/version", &Api::ollama_version, clients, false, ErrorForm::ollama},
      {"GET", "/api/tags", &Api::ollama_tags, clients, false, ErrorForm::ollama},
      {"GET", "/api/ps", &Api::ollama_tags, clients, false, ErrorForm::ollama},
      {"POST", "/api/show", &Api::ollama_show, clients, false, ErrorForm::ollama},
      {"POST", "/api/chat", &Api::ollama_chat, clients, false, ErrorForm::ollama},
      {"POST", "/api/generate", &Api::ollama_generate, clients, false, ErrorForm::ollama},
      {"POST", "/api/embed", &Api::ollama_embed, clients, false, ErrorForm::ollama},
      {"POST", "/classify", &Api::classify},
      {"POST", "/v1/classify", &Api::classify},
      {"POST", "/rerank", &Api::rerank},
      {"POST", "/v1/rerank", &Api::rerank},
      {"POST", "/v2/rerank", &Api::rerank},
      {"POST", "/score", &Api::score},
      {"POST", "/v1/score", &Api::score},
      {"POST", "/v1/load_lora_adapter", &Api::load_adapter, administrators},
      {"POST", "/v1/unload_lora_adapter", &Api::unload_adapter, administrators},
      {"POST", "/tokenize", &Api::tokenize},
      {"POST", "/detokenize", &Api::detokenize},
  });
  return kRoutes;
}

const Api::Route& Api::find_route(const HttpRequest& request) {
  const Route* other_method = nullptr;
  for (const Route& route : routes()) {
    const bool fits =
        route.is_prefix ? request.path.starts_with(route.path) : request.path == route.path;
    if (fits && route.method == request.method) return route;
    if (fits) other_method = &route;
  }
  if (other_method) {
    ApiError error(405, fmt::format("{} takes {}", other_method->path, other_method->method));
    error.allowed_method = other_method->method == "GET" ? "GET, HEAD" : other_method->method;
    throw error;
  }
  throw ApiError(404, fmt::format("there is no {}", io::quote_text(request.path)));
}

void Api::begin_serving(ServedModel& model, serve::Engine& engine, Metrics& metrics) {
  model_ = &model;
  engine_ = &engine;
  metrics_ = &metrics;
  ready_ = true;
}

void Api::require_ready() const {
  if (!ready_) throw come_again("the model is being loaded", 1);
  if (draining_) throw come_again("the server is stopping", 5);
  if (paused_) throw come_again("a rank of the model was lost; the engine is restarting", 2);
}

void Api::handle(HttpRequest request, std::shared_ptr<Reply> reply) {
  Metrics* const metrics = ready_ ? metrics_ : nullptr;
  const auto make_reply = [&](ErrorForm errors, const Headers& headers) {
    return std::make_shared<RouteReply>(reply, errors, headers, metrics);
  };
  auto answer = make_reply(ErrorForm::openai, {});
  try {
    access_.check_host(request);
    const Headers headers = access_.check_origin(request);
    answer = make_reply(ErrorForm::openai, headers);
    if (auto preflight = access_.answer_preflight(request, headers)) {
      return reply->send(204, "text/plain", "", *std::move(preflight));
    }
    const Route& route = find_route(request);
    answer = make_reply(route.errors, headers);
    // Clients of ollama send JSON under other types, too. Of a page, the type must be right.
    const bool is_page = !header_of(request, "origin").empty();
    if (is_page || route.errors != ErrorForm::ollama) Access::check_content_type(request);
    if (route.audience != Route::For::open) {
      access_.check_key(request, route.audience == Route::For::administrators);
      require_ready();
    }
    (this->*route.action)(request, answer);
  } catch (const ApiError& error) {
    log::info("peer={} method={} path={} status={} error={}", request.peer, request.method,
              io::quote_text(request.path), error.status, io::quote_text(error.what()));
    send_error(*answer, error);
  }
}

// Warns once per field: clients send many fields that a server does not know, but a misspelt field
// should be noticed.
void Api::log_unknown_fields(const std::vector<std::string>& fields) {
  for (const std::string& field : fields) {
    if (logged_fields_.size() >= kMaxNotedFields || !logged_fields_.insert(field).second) continue;
    log::warn("a request has an unknown field, which is ignored: {}", io::quote_text(field));
  }
}

void Api::page(const HttpRequest&, const std::shared_ptr<Reply>& reply) {
  reply->send(200, "text/html; charset=utf-8", chat_page(),
              {{"Content-Security-Policy",
                "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                "frame-ancestors 'none'"},
               {"X-Content-Type-Options", "nosniff"},
               {"Referrer-Policy", "no-referrer"}});
}

void Api::health(const HttpRequest&, const std::shared_ptr<Reply>& reply) {
  require_ready();
  send_json(*reply, {{"status", "ok"}});
}

void Api::metrics(const HttpRequest&, const std::shared_ptr<Reply>& reply) {
  reply->send(200, "text/plain; version=0.0.4; charset=utf-8",
              metrics_->text(engine_->statistics()));
}

Json Api::describe_model(const ServedAdapter* adapter) const {
  Json json{{"id", adapter ? adapter->name : model_->name()},
            {"object", "model"},
            {"created", adapter ? adapter->created : model_->created()},
            {"owned_by", "colossal"},
            // The fields of Anthropic's list of models.
            {"type", "model"},
            {"display_name", adapter ? adapter->name : model_->name()},
            {"created_at", utc_time(adapter ? adapter->created : model_->created())}};
  if (adapter) {
    json["root"] = adapter->folder.string();
    json["parent"] = model_->name();
  }
  json["max_model_len"] = model_->max_length();
  json["chat_template"] = model_->chat_template() != nullptr;
  return json;
}

void Api::models(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  const std::string prefix = "/v1/models/";
  if (!request.path.starts_with(prefix)) {
    Json all = Json::array({describe_model(nullptr)});
    for (const ServedAdapter& adapter : model_->adapters().all()) {
      all.push_back(describe_model(&adapter));
    }
    const Json first = all.front()["id"], last = all.back()["id"];
    return send_json(*reply, {{"object", "list"},
                              {"data", std::move(all)},
                              {"has_more", false},
                              {"first_id", first},
                              {"last_id", last}});
  }
  const std::string name = percent_decoded(request.path.substr(prefix.size()));
  if (name == model_->name()) return send_json(*reply, describe_model(nullptr));
  if (const auto adapter = model_->adapters().find(name)) {
    return send_json(*reply, describe_model(&*adapter));
  }
  throw ApiError(404, fmt::format("the model {} is not served; there is {}", io::quote_text(name),
                                  model_->quoted_names()));
}

void Api::require_adapter_loading() const {
  if (options_.adapter_loading) return;
  throw ApiError(403,
                 "clients may not load adapters here: start the server with "
                 "--allow-adapter-loading, or with --adapter=NAME=DIR");
}

// As in vLLM, load_inplace allows replacing an adapter of the same name.
void Api::load_adapter(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  require_adapter_loading();
  const Json body = parse_body(request.body);
  Fields fields(body);
  const std::string name = required_text(fields, "lora_name");
  const std::string folder = required_text(fields, "lora_path");
  const bool replace = fields.boolean("load_inplace", false);
  fields.ignore("base_model_name");
  log_unknown_fields(fields.unknown());
  if (name == model_->name()) {
    throw ApiError(400, "lora_name is the name of the model itself; choose another name",
                   "lora_name");
  }
  // Loads on another thread, because a disk may be slow: other requests are answered meanwhile.
  std::erase_if(loads_, [](const std::future<void>& load) {
    return load.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  loads_.push_back(std::async(std::launch::async, [this, name, folder, replace, reply] {
    try {
      model_->adapters().load(name, folder, replace);
      log::info("adapter {} loaded from {}", io::quote_text(name), io::quote_text(folder));
      reply->send(200, "text/plain; charset=utf-8",
                  fmt::format("Success: LoRA adapter '{}' added successfully.", name));
    } catch (const ApiError& error) {
      send_error(*reply, error);
    } catch (const std::exception& error) {
      send_error(*reply, ApiError(500, error.what()));
    }
  }));
}

void Api::unload_adapter(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  require_adapter_loading();
  const Json body = parse_body(request.body);
  Fields fields(body);
  const std::string name = required_text(fields, "lora_name");
  fields.ignore("lora_int_id");
  log_unknown_fields(fields.unknown());
  model_->adapters().unload(name);
  log::info("adapter {} unloaded", io::quote_text(name));
  reply->send(200, "text/plain; charset=utf-8",
              fmt::format("Success: LoRA adapter '{}' removed successfully.", name));
}

void Api::require_decoder() const {
  if (model_->generates()) return;
  const std::string name = io::quote_text(model_->name());
  throw ApiError(400,
                 model_->labels()
                     ? fmt::format("{} gives texts scores and predicts no next token: it answers "
                                   "/classify, /rerank and /score",
                                   name)
                     : fmt::format("{} is an encoder, which predicts no next token: it answers "
                                   "/v1/embeddings only",
                                   name),
                 "model");
}

void Api::completions(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  require_decoder();
  run(read_completion_request(parse_body(request.body), *model_, rules_), write_completion(),
      reply);
}

void Api::chat_completions(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  require_decoder();
  run(read_chat_request(parse_body(request.body), *model_, rules_), write_completion(), reply);
}

Api::MakeWriter Api::write_completion() const {
  return [this](const GenerationRequest& request) {
    return std::make_unique<CompletionJson>(request, *model_);
  };
}

void Api::responses(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  require_decoder();
  Json body = parse_body(request.body);
  const TranslatedRequest chat = translate_responses(body);
  log_unknown_fields(chat.unknown_fields);
  run(
      read_chat_request(chat.body, *model_, rules_, TokenLimit::at_most),
      [&](const GenerationRequest& read) {
        return std::make_unique<ResponsesWriter>(std::move(body), read, *model_);
      },
      reply);
}

void Api::messages(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  require_decoder();
  const TranslatedRequest chat = translate_anthropic(parse_body(request.body), /*generates=*/true);
  log_unknown_fields(chat.unknown_fields);
  run(
      read_chat_request(chat.body, *model_, rules_, TokenLimit::at_most),
      [](const GenerationRequest& read) { return std::make_unique<AnthropicWriter>(read); }, reply);
}

void Api::count_tokens(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  const TranslatedRequest chat = translate_anthropic(parse_body(request.body), /*generates=*/false);
  log_unknown_fields(chat.unknown_fields);
  send_json(*reply, {{"input_tokens", chat_tokens(chat.body).size()}});
}

void Api::run(GenerationRequest read, const MakeWriter& make_writer,
              const std::shared_ptr<Reply>& reply) {
  log_unknown_fields(read.unknown_fields);
  const auto request = std::make_shared<const GenerationRequest>(std::move(read));
  std::make_shared<Completion>(request, make_writer(*request), *model_, *engine_, *metrics_, reply)
      ->start();
}

void Api::embeddings(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  if (model_->labels()) require_decoder();  // its states are not what it returns
  run(read_embedding_request(parse_body(request.body), *model_), answer_embeddings, reply);
}

void Api::run(
    EmbeddingRequest read,
    std::function<Json(const EmbeddingRequest&, const std::vector<std::vector<double>>&)> answer,
    const std::shared_ptr<Reply>& reply) {
  log_unknown_fields(read.unknown_fields);
  PooledTextsRequest texts{.model = read.model,
                           .texts = {},
                           .pooling = read.pooling,
                           .priority = read.priority,
                           .adapter = read.adapter,
                           .cache_salt = read.cache_salt};
  for (const std::vector<int32_t>& tokens : read.inputs) texts.texts.push_back({tokens});
  run(
      std::move(texts), [read, answer](const auto& results) { return answer(read, results); },
      reply);
}

void Api::run(PooledTextsRequest texts, MakeAnswer answer, const std::shared_ptr<Reply>& reply) {
  std::make_shared<PooledTexts>(std::move(texts), std::move(answer), *engine_, *metrics_, reply)
      ->start();
}

void Api::classify(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  ScoreRequest read = read_classify_request(parse_body(request.body), *model_);
  log_unknown_fields(read.unknown_fields);
  run(std::move(read.texts), std::move(read.answer), reply);
}

void Api::rerank(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  ScoreRequest read = read_rerank_request(parse_body(request.body), *model_);
  log_unknown_fields(read.unknown_fields);
  run(std::move(read.texts), std::move(read.answer), reply);
}

void Api::score(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  ScoreRequest read = read_score_request(parse_body(request.body), *model_);
  log_unknown_fields(read.unknown_fields);
  run(std::move(read.texts), std::move(read.answer), reply);
}

std::vector<int32_t> Api::chat_tokens(const Json& chat) {
  Fields fields(chat);
  const ModelChoice choice = choose_model(fields, *model_);
  const text::ChatOptions options = read_chat_options(fields, read_tools(fields));
  std::vector<int32_t> tokens = model_
                                    ->encode_chat(read_messages(fields), options,
                                                  ServedModel::LongText::refuse, choice.form.get())
                                    .tokens;
  log_unknown_fields(fields.unknown());
  return tokens;
}

void Api::tokenize(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  const Json body = parse_body(request.body);
  std::vector<int32_t> tokens;
  if (body.contains("prompt")) {
    Fields fields(body);
    choose_model(fields, *model_);
    tokens =
        model_->encode(required_text(fields, "prompt"), fields.boolean("add_special_tokens", true));
    log_unknown_fields(fields.unknown());
  } else {
    tokens = chat_tokens(body);
  }
  send_json(
      *reply,
      {{"count", tokens.size()}, {"max_model_len", model_->max_length()}, {"tokens", tokens}});
}

void Api::detokenize(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  const Json body = parse_body(request.body);
  Fields fields(body);
  choose_model(fields, *model_);
  if (!fields.find("tokens")) throw ApiError(400, "tokens is missing", "tokens");
  const std::vector<int32_t> tokens = fields.tokens("tokens");
  log_unknown_fields(fields.unknown());
  send_json(*reply, {{"prompt", model_->tokenizer().decode(tokens)}});
}

}  // namespace colossal::server
