#include "colossal/server/api.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "colossal/base/log.h"
#include "colossal/io/json.h"
#include "colossal/server/chat_page.h"
#include "colossal/server/completion.h"
#include "colossal/server/embedding_request.h"
#include "colossal/server/generation_request.h"
#include "colossal/server/score_request.h"

namespace colossal::server {
namespace {

constexpr size_t kMaxNotedFields = 100;

// Takes equally long wherever the texts differ, so that a key cannot be guessed letter by letter.
bool equal_in_constant_time(std::string_view given, std::string_view wanted) {
  unsigned difference = given.size() == wanted.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^
                  static_cast<unsigned char>(wanted.empty() ? 0 : wanted[i % wanted.size()]);
  }
  return difference == 0;
}

std::string header(const HttpRequest& request, const char* name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? std::string() : found->second;
}

void send_json(Reply& reply, const Json& json) {
  reply.send(200, "application/json", to_text(json));
}

// Guards against requests that other sites' pages make a browser send. A browser sends JSON to
// another site only if that site's server allows it, and it states the page's site in Origin.
void refuse_other_sites(const HttpRequest& request) {
  const std::string origin = header(request, "origin");
  if (!origin.empty() && origin.substr(origin.find("//") + 2) != header(request, "host")) {
    throw ApiError(403, "pages of other sites may not use this server");
  }
  if (request.method == "POST" &&
      !header(request, "content-type").starts_with("application/json")) {
    throw ApiError(415, "send the body as \"Content-Type: application/json\"");
  }
}

std::string required_text(Fields& fields, const char* name) {
  const auto text = fields.string(name);
  if (!text || text->empty()) throw ApiError(400, fmt::format("{} is missing", name), name);
  return *text;
}

ApiError come_again(const char* message, int seconds) {
  ApiError error(503, message);
  error.retry_after = seconds;
  return error;
}

// Counts the answers by status.
class CountedReply : public Reply {
 public:
  CountedReply(std::shared_ptr<Reply> reply, Metrics& metrics)
      : reply_(std::move(reply)), metrics_(metrics) {}
  void send(int status, std::string_view content_type, std::string body, Headers headers) override {
    metrics_.answered(status);
    reply_->send(status, content_type, std::move(body), std::move(headers));
  }
  void write_event(std::string_view event) override { reply_->write_event(event); }
  void end_stream() override {
    metrics_.answered(200);
    reply_->end_stream();
  }
  void on_abandoned(std::function<void()> action) override {
    reply_->on_abandoned(std::move(action));
  }

 private:
  std::shared_ptr<Reply> reply_;
  Metrics& metrics_;
};

}  // namespace

struct Api::Route {
  std::string_view method, path;
  Action action;
  bool is_open = false;    // allowed without a key and before the model is loaded
  bool is_prefix = false;  // matches all paths that begin with `path`
};

const Api::Route* Api::find_route(const HttpRequest& request) {
  static constexpr std::array<Route, 17> kRoutes{{
      {"GET", "/", &Api::page, true},
      {"GET", "/health", &Api::health, true},
      {"GET", "/metrics", &Api::metrics},
      {"GET", "/v1/models", &Api::models},
      {"GET", "/v1/models/", &Api::models, false, true},
      {"POST", "/v1/completions", &Api::completions},
      {"POST", "/v1/chat/completions", &Api::chat_completions},
      {"POST", "/v1/embeddings", &Api::embeddings},
      {"POST", "/classify", &Api::classify},
      {"POST", "/rerank", &Api::rerank},
      {"POST", "/v1/rerank", &Api::rerank},
      {"POST", "/score", &Api::score},
      {"POST", "/v1/score", &Api::score},
      {"POST", "/v1/load_lora_adapter", &Api::load_adapter},
      {"POST", "/v1/unload_lora_adapter", &Api::unload_adapter},
      {"POST", "/tokenize", &Api::tokenize},
      {"POST", "/detokenize", &Api::detokenize},
  }};
  const Route* other_method = nullptr;
  for (const Route& route : kRoutes) {
    const bool fits =
        route.is_prefix ? request.path.starts_with(route.path) : request.path == route.path;
    if (fits && route.method == request.method) return &route;
    if (fits) other_method = &route;
  }
  if (other_method) {
    throw ApiError(405, fmt::format("{} takes {}", other_method->path, other_method->method));
  }
  throw ApiError(404, fmt::format("there is no {}", io::quote_text(request.path)));
}

void Api::begin_serving(ServedModel& model, serve::Engine& engine, Metrics& metrics) {
  model_ = &model;
  engine_ = &engine;
  metrics_ = &metrics;
  ready_ = true;
}

void Api::authorize(const HttpRequest& request) const {
  if (options_.key.empty()) return;
  const std::string given = header(request, "authorization");
  const std::string_view scheme = "Bearer ";
  if (!given.starts_with(scheme) ||
      !equal_in_constant_time(std::string_view(given).substr(scheme.size()), options_.key)) {
    throw ApiError(401, "this server requires its API key: \"Authorization: Bearer KEY\"");
  }
}

void Api::require_ready() const {
  if (!ready_) throw come_again("the model is being loaded", 1);
  if (draining_) throw come_again("the server is stopping", 5);
  if (paused_) throw come_again("a rank of the model was lost; the engine is restarting", 2);
}

void Api::handle(HttpRequest request, std::shared_ptr<Reply> reply) {
  if (ready_) reply = std::make_shared<CountedReply>(std::move(reply), *metrics_);
  try {
    const Route* route = find_route(request);
    refuse_other_sites(request);
    if (!route->is_open) {
      authorize(request);
      require_ready();
    }
    (this->*route->action)(request, reply);
  } catch (const ApiError& error) {
    log::info("peer={} method={} path={} status={} error={}", request.peer, request.method,
              io::quote_text(request.path), error.status, io::quote_text(error.what()));
    send_error(*reply, error);
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
            {"owned_by", "colossal"}};
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
    return send_json(*reply, {{"object", "list"}, {"data", std::move(all)}});
  }
  const std::string name = request.path.substr(prefix.size());
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
  GenerationRequest read = read_completion_request(parse_body(request.body), *model_, rules_);
  log_unknown_fields(read.unknown_fields);
  std::make_shared<Completion>(std::move(read), *model_, *engine_, *metrics_, reply)->start();
}

void Api::chat_completions(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  require_decoder();
  GenerationRequest read = read_chat_request(parse_body(request.body), *model_, rules_);
  log_unknown_fields(read.unknown_fields);
  std::make_shared<Completion>(std::move(read), *model_, *engine_, *metrics_, reply)->start();
}

void Api::embeddings(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  if (model_->labels()) require_decoder();  // its states are not what it returns
  EmbeddingRequest read = read_embedding_request(parse_body(request.body), *model_);
  log_unknown_fields(read.unknown_fields);
  PooledTextsRequest texts{.texts = {},
                           .pooling = read.pooling,
                           .priority = read.priority,
                           .adapter = read.adapter,
                           .cache_salt = read.cache_salt};
  for (const std::vector<int32_t>& tokens : read.inputs) texts.texts.push_back({tokens});
  run(
      std::move(texts), [read](const auto& results) { return answer_embeddings(read, results); },
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

void Api::tokenize(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  const Json body = parse_body(request.body);
  Fields fields(body);
  choose_model(fields, *model_);
  std::vector<int32_t> tokens;
  if (const auto prompt = fields.string("prompt")) {
    tokens = model_->encode(*prompt, fields.boolean("add_special_tokens", true));
  } else {
    const text::ChatOptions options = read_chat_options(fields, read_tools(fields));
    tokens = model_->encode_chat(read_messages(fields), options);
  }
  log_unknown_fields(fields.unknown());
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
