// The HTTP routes of the server: the APIs of OpenAI, Anthropic and ollama, vLLM's routes for
// adapters and tokens, metrics, and the chat page.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "colossal/serve/engine.h"
#include "colossal/server/access.h"
#include "colossal/server/answer_writer.h"
#include "colossal/server/embedding_request.h"
#include "colossal/server/generation_request.h"
#include "colossal/server/http_server.h"
#include "colossal/server/json_body.h"
#include "colossal/server/metrics.h"
#include "colossal/server/pooled_texts.h"
#include "colossal/server/rule_cache.h"
#include "colossal/server/served_model.h"

namespace colossal::server {

// Access settings of the API.
struct ApiOptions {
  // The keys are required on all routes except /health and the chat page.
  AccessOptions access;
  // Whether clients may load adapters from folders of this machine, and unload adapters.
  bool adapter_loading = false;
};

// Routes requests to their handlers. Unless noted otherwise, not thread-safe.
class Api {
 public:
  explicit Api(const ApiOptions& options) : options_(options), access_(options.access) {}

  // See Access::set_address(). Call before handle().
  void set_address(const std::string& host, bool is_loopback) {
    access_.set_address(host, is_loopback);
  }

  // Starts answering requests. Before this call, all routes except the chat page answer with status
  // 503 and Retry-After. Call once, on any thread. The arguments must outlive all answers.
  void begin_serving(ServedModel& model, serve::Engine& engine, Metrics& metrics);
  // From now on, new requests except for the chat page get status 503; running requests continue.
  // Thread-safe.
  void begin_draining() { draining_ = true; }
  // While `paused`, because the engine is being restarted, new requests except for the chat page
  // get status 503. Thread-safe.
  void pause(bool paused) { paused_ = paused; }
  // Call before the engine ends: requests whose rules are not compiled yet get an error.
  void stop_rules() { rules_.stop(); }
  // Waits until all adapters that are being loaded are loaded. Call on the server's thread, or
  // after that thread has ended.
  void finish_loading() { loads_.clear(); }

  // Handles a request: sends a response through `reply`, now or later from another thread. Call on
  // the server's thread. An ApiError is sent to the client, not thrown.
  void handle(HttpRequest request, std::shared_ptr<Reply> reply);

 private:
  struct Route;
  using Action = void (Api::*)(const HttpRequest&, const std::shared_ptr<Reply>&);

  // Returns the routes, for every method.
  static std::span<const Route> routes();
  // Returns the route of the request. Throws ApiError 404 or 405 if there is none.
  static const Route& find_route(const HttpRequest& request);
  // Throws ApiError 503 before begin_serving(), while draining and while paused.
  void require_ready() const;
  // Logs each name of an unknown request field once, and at most 100 names.
  void log_unknown_fields(const std::vector<std::string>& fields);

  // Each function with a Reply handles one route.
  void page(const HttpRequest&, const std::shared_ptr<Reply>& reply);
  void health(const HttpRequest&, const std::shared_ptr<Reply>& reply);
  void metrics(const HttpRequest&, const std::shared_ptr<Reply>& reply);
  void models(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  // Returns the entry of the model list for an adapter; for the base model if `adapter` is null.
  Json describe_model(const ServedAdapter* adapter) const;
  // Throws ApiError 403 unless ApiOptions::adapter_loading.
  void require_adapter_loading() const;
  // Throws ApiError 400 if the model does not predict the next token.
  void require_decoder() const;
  void load_adapter(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void unload_adapter(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void completions(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void chat_completions(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void embeddings(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void responses(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void messages(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void count_tokens(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  // The routes of ollama's API, in ollama_routes.cpp.
  void ollama_version(const HttpRequest&, const std::shared_ptr<Reply>& reply);
  void ollama_tags(const HttpRequest&, const std::shared_ptr<Reply>& reply);
  void ollama_show(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void ollama_chat(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void ollama_generate(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void ollama_embed(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  Json describe_for_ollama(const std::string& name, int64_t created) const;
  void classify(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void rerank(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void score(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  // Starts the generation of answers. make_writer: makes what formats them.
  using MakeWriter = std::function<std::unique_ptr<AnswerWriter>(const GenerationRequest&)>;
  void run(GenerationRequest request, const MakeWriter& make_writer,
           const std::shared_ptr<Reply>& reply);
  MakeWriter write_completion() const;  // in the form of OpenAI's completions and chats
  // Starts the computation of embeddings; `answer` makes the response from them.
  void run(
      EmbeddingRequest request,
      std::function<Json(const EmbeddingRequest&, const std::vector<std::vector<double>>&)> answer,
      const std::shared_ptr<Reply>& reply);
  // Starts the computation of embeddings or scores; `answer` makes the response from them.
  void run(PooledTextsRequest texts, MakeAnswer answer, const std::shared_ptr<Reply>& reply);
  // Returns the tokens of the prompt of a chat request.
  std::vector<int32_t> chat_tokens(const Json& chat);
  void tokenize(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void detokenize(const HttpRequest& request, const std::shared_ptr<Reply>& reply);

  ApiOptions options_;
  Access access_;
  ServedModel* model_ = nullptr;
  serve::Engine* engine_ = nullptr;
  Metrics* metrics_ = nullptr;
  std::atomic<bool> ready_ = false, draining_ = false, paused_ = false;
  std::set<std::string> logged_fields_;   // unknown fields that were logged
  std::vector<std::future<void>> loads_;  // adapters that are being loaded
  RuleCache rules_;
};

}  // namespace colossal::server
