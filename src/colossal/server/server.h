// The HTTP server of a model, from listening to draining.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "colossal/cluster/signal_queue.h"
#include "colossal/cluster/stop_request.h"
#include "colossal/server/api.h"
#include "colossal/server/http_server.h"

namespace colossal::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;
  ApiOptions api;
  std::chrono::milliseconds drain_timeout{30'000};
};

// Listens from construction on; before begin(), requests get status 503 with Retry-After
// (Api::begin_serving()). Handles the stop signals of this process, so it must be constructed
// before other threads start:
//
//   A signal before begin() ends the process with exit code 0.
//   The first signal after begin() starts draining: running requests continue, new requests get
//     status 503, and wait() returns `stopping`. finish() cancels requests that are not done within
//     drain_timeout.
//   A further signal that insists (cluster::StopRequests) ends the process at once, with exit code
//     128 + signal.
class Server {
 public:
  // Throws ConfigError if the address is not available.
  explicit Server(const ServerOptions& options);
  ~Server();

  std::string address() const { return http_.address(); }

  // Starts answering requests. The model must outlive the server.
  void begin(ServedModel& model, std::unique_ptr<serve::Engine> engine);
  // wait() blocks until the process receives a stop signal (`stopping`) or engine_lost() is called
  // (`lost`), and returns which of these happened.
  enum class Event { none, lost, stopping };
  Event wait();
  // Thread-safe. Call when a rank of the engine is lost and the engine has ended all requests.
  // Until resume(), new requests get status 503 with Retry-After.
  void engine_lost();
  // Resumes the engine after engine_lost(), with the model reopened on `ranks`.
  void resume(models::LanguageModel& model, const ParallelContext* ranks);
  // Call after wait() returned `stopping`: returns when all requests are answered or cancelled.
  void finish();

 private:
  void take_signals();
  void take_signal(int signal);
  void begin_draining(int signal);
  void await_answers(std::chrono::milliseconds time) const;

  ServerOptions options_;
  cluster::SignalQueue signals_;
  cluster::StopRequests requests_;
  Api api_;
  HttpServer http_;
  std::optional<Metrics> metrics_;
  std::unique_ptr<serve::Engine> engine_;
  std::atomic<bool> serving_ = false;
  std::atomic<Event> event_ = Event::none;
  std::thread thread_;
};

}  // namespace colossal::server
