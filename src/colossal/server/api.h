// The HTTP routes of the server (OpenAI API).
#pragma once

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "colossal/serve/engine.h"
#include "colossal/server/http_server.h"
#include "colossal/server/json_body.h"
#include "colossal/server/metrics.h"
#include "colossal/server/served_model.h"
#include "colossal/server/text_constraint.h"

namespace colossal::server {

struct ApiOptions {
  // If not empty, clients must send "Authorization: Bearer KEY" with this key on all routes except
  // /health and the chat page.
  std::string key;
  // Whether clients may load adapters from folders of this machine, and unload adapters.
  bool adapter_loading = false;
};

class Api {
 public:
  explicit Api(ApiOptions options) : options_(std::move(options)) {}

  // Starts answering requests; before this call, requests for anything but the chat page get status
  // 503 with Retry-After. The arguments must outlive all answers.
  void begin_serving(ServedModel& model, serve::Engine& engine, Metrics& metrics);
  // From now on, new requests get status 503; running requests continue.
  void begin_draining() { draining_ = true; }
  // While paused (the engine is being restarted), new requests get status 503.
  void pause(bool paused) { paused_ = paused; }
  // Waits until all adapter loads that have begun are over. Call on the server's thread, or after
  // that thread has ended.
  void finish_loading() { loads_.clear(); }

  // Handles a request. Called on the server's thread. An ApiError is sent to the client, not
  // thrown.
  void handle(HttpRequest request, std::shared_ptr<Reply> reply);

 private:
  struct Route;
  using Action = void (Api::*)(const HttpRequest&, const std::shared_ptr<Reply>&);

  static const Route* find_route(const HttpRequest& request);
  void authorize(const HttpRequest& request) const;
  void require_ready() const;
  void note_unknown(const std::vector<std::string>& fields);

  void page(const HttpRequest&, const std::shared_ptr<Reply>& reply);
  void health(const HttpRequest&, const std::shared_ptr<Reply>& reply);
  void metrics(const HttpRequest&, const std::shared_ptr<Reply>& reply);
  void models(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  Json describe_model(const ServedAdapter* adapter) const;  // null: the base model
  void require_adapter_loading() const;
  void load_adapter(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void unload_adapter(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void completions(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void chat_completions(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void embeddings(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void tokenize(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  void detokenize(const HttpRequest& request, const std::shared_ptr<Reply>& reply);

  ApiOptions options_;
  ServedModel* model_ = nullptr;
  serve::Engine* engine_ = nullptr;
  Metrics* metrics_ = nullptr;
  std::atomic<bool> ready_ = false, draining_ = false, paused_ = false;
  std::set<std::string> noted_fields_;
  std::vector<std::future<void>> loads_;  // adapters being loaded
  RuleCache rules_;
};

}  // namespace colossal::server
