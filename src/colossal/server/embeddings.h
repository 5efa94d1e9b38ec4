// Runs an embeddings request from its submission to its response.
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

// Returns the numbers, rounded to fp32, as base64 of their little-endian bytes.
std::string base64_of(const std::vector<double>& numbers);

class Embeddings : public std::enable_shared_from_this<Embeddings> {
 public:
  Embeddings(EmbeddingRequest request, serve::Engine& engine, Metrics& metrics,
             std::shared_ptr<Reply> reply);

  // Submits the texts to the engine, a limited number at a time. The engine calls back on its own
  // thread. Throws ApiError 429 if the queue is full, 400 if the engine rejects a text; in these
  // cases, cancels all texts. Throws serve::EngineLost if the engine has lost a rank.
  void start();

 private:
  serve::Request engine_request(size_t which);
  // Called on the engine's thread.
  void finish(serve::FinishReason reason, const serve::Usage& usage, const std::string& error);

  void abandon();
  // The following functions require mutex_ to be locked.
  // Submits the texts before number `end`. If the engine refuses one, cancels all and throws
  // ApiError.
  void submit_until(size_t end);
  void cancel_all();
  void answer();
  Json data_of(const std::vector<double>& embedding) const;

  const EmbeddingRequest request_;
  serve::Engine& engine_;
  Metrics& metrics_;
  std::shared_ptr<Reply> reply_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

  std::mutex mutex_;
  std::vector<serve::RequestId> ids_;
  std::vector<std::vector<double>> embeddings_;  // [hidden] for each text
  size_t next_ = 0;                              // index of the next text to submit
  size_t num_finished_ = 0;
  bool over_ = false;  // answered, failed or abandoned
};

}  // namespace colossal::server
