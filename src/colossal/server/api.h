// The routes of the server.
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
  // What clients must send as "Authorization: Bearer KEY" on all routes but /health and the chat
  // page; empty: nothing.
  std::string key;
  // Clients may load adapters from folders of this machine, and unload them.
  bool adapter_loading = false;
};

class Api {
 public:
  explicit Api(ApiOptions options) : options_(std::move(options)) {}

  // Answers requests from now on; before, all are told to come again. The arguments must outlive
  // the answers.
  void begin_serving(ServedModel& model, serve::Engine& engine, Metrics& metrics);
  // From now on new requests are told to come again; those under way go on.
  void begin_draining() { draining_ = true; }
  // From now on, until resumed, new requests are told to come again: the engine starts once more.
  void pause(bool paused) { paused_ = paused; }
  // Waits for adapters that are being read. On the server's thread, or after its end.
  void finish_loading() { loads_.clear(); }

  // On the server's thread. Throws ApiError.
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
  Json describe_model(const ServedAdapter* adapter) const;  // null: the model itself
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
  std::vector<std::future<void>> loads_;  // of adapters
  RuleCache rules_;
};

}  // namespace colossal::server
