// Runs a request whose response is made of embeddings or scores of texts, from its submission to
// the engine to its response. Api creates one PooledTexts object for each request.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "colossal/serve/engine.h"
#include "colossal/server/http_server.h"
#include "colossal/server/json_body.h"
#include "colossal/server/metrics.h"

namespace colossal::server {

// A text whose hidden states the engine pools.
struct PooledText {
  std::vector<int32_t> tokens;
  std::vector<int32_t> types{};  // serve::Request::token_types
};

// What the engine is to compute.
struct PooledTextsRequest {
  std::string model;              // name in the request
  std::vector<PooledText> texts;  // at least one
  serve::Pooling pooling = serve::Pooling::last;
  int priority = 0;
  std::shared_ptr<const nn::AdapterWeights> adapter{};
  std::string cache_salt{};
};

// A function that returns the response. results: for each text, its embedding or its scores
// (serve::Request::on_embedding).
using MakeAnswer = std::function<Json(const std::vector<std::vector<double>>& results)>;

// Collects the embeddings, or the scores, of the texts of one request. The callbacks that it passes
// to the engine keep it alive. Must be owned by a std::shared_ptr.
class PooledTexts : public std::enable_shared_from_this<PooledTexts> {
 public:
  // engine, metrics: must outlive the object.
  PooledTexts(PooledTextsRequest request, MakeAnswer make_answer, serve::Engine& engine,
              Metrics& metrics, std::shared_ptr<Reply> reply);

  // Submits the first 32 texts to the engine, and a further text each time a text has ended, so
  // that other requests get places in the engine's queue. The engine calls back on the engine's
  // thread. Call once, on the server's thread, before the handler of the request returns: start()
  // calls Reply::on_abandoned(), which is allowed only until then. Throws ApiError 429 if the queue
  // is full, 503 if the engine has lost a rank, 400 if the engine rejects a text. If it throws, all
  // texts are cancelled.
  void start();

 private:
  // Returns the request to the engine for text number `which`.
  serve::Request engine_request(size_t which);
  // Called on the engine's thread when a text has ended.
  void finish(serve::FinishReason reason, const serve::Usage& usage, const std::string& error);

  // Called when the client has disconnected: cancels all texts.
  void abandon();
  // Submits the texts from next_ to `end` - 1. If the engine refuses one, cancels all and throws
  // ApiError. This and the following functions require mutex_ to be locked.
  void submit_until(size_t end);
  void cancel_all();
  // Sends the response.
  void answer();
  const PooledTextsRequest request_;
  const MakeAnswer make_answer_;
  serve::Engine& engine_;
  Metrics& metrics_;
  std::shared_ptr<Reply> reply_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

  std::mutex mutex_;                          // guards the members below
  std::vector<serve::RequestId> ids_;         // of the submitted engine requests
  std::vector<std::vector<double>> results_;  // by text
  size_t next_ = 0;                           // index of the next text to submit
  size_t num_finished_ = 0;
  bool over_ = false;  // answered, rejected, failed or abandoned: nothing more is sent
};

}  // namespace colossal::server
