// A request for embeddings from its submission to its answer.
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

// Returns numbers as fp32, lowest byte first, in base64.
std::string base64_of(const std::vector<double>& numbers);

class Embeddings : public std::enable_shared_from_this<Embeddings> {
 public:
  Embeddings(EmbeddingRequest request, serve::Engine& engine, Metrics& metrics,
             std::shared_ptr<Reply> reply);

  // Hands texts to the engine, some at a time; it answers from its own thread from now on. Throws
  // ApiError 429 if its queue is full; then no text runs.
  void start();

 private:
  serve::Request engine_request(size_t which);
  // On the engine's thread.
  void finish(serve::FinishReason reason, const serve::Usage& usage, const std::string& error);

  void abandon();
  // Under the lock.
  void submit_next();
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
  std::vector<std::vector<double>> embeddings_;  // of each text
  size_t next_ = 0;                              // of the texts, to be handed over
  size_t num_finished_ = 0;
  bool over_ = false;  // answered, refused or abandoned
};

}  // namespace colossal::server
