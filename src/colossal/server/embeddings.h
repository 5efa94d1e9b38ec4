// Runs an embeddings request from its submission to the engine to its response. Api creates one
// Embeddings object for each request.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "colossal/serve/engine.h"
#include "colossal/server/embedding_request.h"
#include "colossal/server/http_server.h"
#include "colossal/server/metrics.h"

namespace colossal::server {

// Returns the numbers as base64 of their little-endian fp32 bytes.
std::string base64_of(const std::vector<double>& numbers);

// Collects the embeddings of one request. The callbacks that it passes to the engine keep it alive.
// Must be owned by a std::shared_ptr.
class Embeddings : public std::enable_shared_from_this<Embeddings> {
 public:
  // engine, metrics: must outlive the object.
  Embeddings(EmbeddingRequest request, serve::Engine& engine, Metrics& metrics,
             std::shared_ptr<Reply> reply);

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
  // Returns an embedding as the request wants it: normalized, as base64 or as numbers.
  Json data_of(const std::vector<double>& embedding) const;

  const EmbeddingRequest request_;
  serve::Engine& engine_;
  Metrics& metrics_;
  std::shared_ptr<Reply> reply_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

  std::mutex mutex_;                             // guards the members below
  std::vector<serve::RequestId> ids_;            // of the submitted engine requests
  std::vector<std::vector<double>> embeddings_;  // by text: [hidden]
  size_t next_ = 0;                              // index of the next text to submit
  size_t num_finished_ = 0;
  bool over_ = false;  // answered, rejected, failed or abandoned: nothing more is sent
};

}  // namespace colossal::server
