// A server from its first listening to its last answer.
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

// Listens while it lives; what is asked before begin() is told to come again. It takes the stop
// signals of this process, so it is made before other threads are:
//   before begin() the process ends with 0: there is nothing to finish;
//   then requests under way are finished, new ones refused, and finish() returns; those that are
//     not done within drain_timeout are cancelled;
//   a second request ends the process at once with 128 + signal.
class Server {
 public:
  // Throws ConfigError for an address that cannot be listened on.
  explicit Server(const ServerOptions& options);
  ~Server();

  std::string address() const { return http_.address(); }

  // Answers from now on. The model must outlive the server.
  void begin(ServedModel& model, std::unique_ptr<serve::Engine> engine);
  // Waits until the process was asked to stop, or the engine was told as lost.
  enum class Event { none, lost, stopping };
  Event wait();
  // Thread-safe: the engine has ended all requests, as one of its ranks is lost. New ones are told
  // to come again.
  void engine_lost();
  // The engine goes on with the model opened anew.
  void resume(models::LanguageModel& model, const ParallelContext* ranks);
  // Once the process was asked to stop: returns when all is answered.
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
