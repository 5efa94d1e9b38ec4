// The HTTP server of a model, from listening to draining. The command `serve` uses it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "colossal/cluster/signal_queue.h"
#include "colossal/cluster/stop_request.h"
#include "colossal/server/api.h"
#include "colossal/server/http_server.h"

namespace colossal::server {

// Settings of a Server.
struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: a free port
  ApiOptions api;
  // Child processes that are waited for when they end: without this, one that is killed would stay
  // a zombie. Whoever has started them may also wait for them.
  std::vector<pid_t> helpers;
  // How long finish() waits for running requests before it cancels them.
  std::chrono::milliseconds drain_timeout{30'000};
};

// Listens from construction on. Before begin(), requests get status 503 with Retry-After.
//
// Handles SIGCHLD and the process's stop signals (SIGINT, SIGTERM, SIGUSR1), so it must be
// constructed before other threads start:
// - A signal before begin() ends the process with exit code 0.
// - The first signal after begin() starts draining: running requests continue, new requests get
//   status 503, and wait() returns `stopping`.
// - A SIGINT or SIGTERM that arrives a second or more after the first SIGINT or SIGTERM ends the
//   process at once, with exit code 128 + signal. Other later signals are ignored.
class Server {
 public:
  // Throws ConfigError if the address is not available.
  explicit Server(const ServerOptions& options);
  ~Server();

  // Returns the address on which the server listens, such as "127.0.0.1:8000".
  std::string address() const { return http_.address(); }

  // Starts answering requests. Call once. model: must outlive the server.
  void begin(ServedModel& model, std::unique_ptr<serve::Engine> engine);
  // The state that wait() reports. lost: engine_lost() was called, and resume() not since.
  // stopping: a stop signal was received; this state stays. none: neither of these.
  enum class Event { none, lost, stopping };
  // Blocks until the state is not `none` and returns it: `lost` or `stopping`.
  Event wait();
  // Call when a rank of the engine is lost and the engine has ended all requests. Until resume(),
  // new requests get status 503 with Retry-After. Thread-safe.
  void engine_lost();
  // Resumes the engine after engine_lost(). ranks: the new ranks that hold the model, of which this
  // rank is the first; null: this rank holds the whole model. model: the model, opened again on
  // these ranks. Both must exist until the server is destroyed or engine_lost() is called again.
  // See serve::Engine::resume().
  void resume(models::Model& model, const ParallelContext* ranks);
  // Call after wait() returned `stopping`. Returns when all requests are answered or cancelled.
  // Requests that are not done after drain_timeout are cancelled.
  void finish();

 private:
  // Called on the server's thread when signals have arrived.
  void take_signals();
  void take_signal(int signal);
  void wait_for_helpers();  // that have ended
  void begin_draining(int signal);
  // Waits until no request is open, at most `time`.
  void await_answers(std::chrono::milliseconds time) const;

  ServerOptions options_;
  cluster::SignalQueue signals_;
  cluster::StopRequests requests_;
  Api api_;
  HttpServer http_;
  std::optional<Metrics> metrics_;
  std::unique_ptr<serve::Engine> engine_;
  std::atomic<bool> serving_ = false;  // begin() was called
  std::atomic<Event> event_ = Event::none;
  std::thread thread_;  // the server's thread
};

}  // namespace colossal::server
