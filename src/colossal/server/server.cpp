#include "colossal/server/server.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "colossal/base/log.h"
#include "colossal/base/units.h"
#include "colossal/cluster/failure.h"

namespace colossal::server {
namespace {

constexpr std::chrono::milliseconds kDrainPoll(20);
constexpr std::array kSignals{SIGINT, SIGTERM, SIGUSR1, SIGCHLD};
// Time for cancelled requests to be answered.
constexpr std::chrono::milliseconds kGoodbye(2000);

}  // namespace

Server::Server(const ServerOptions& options)
    : options_(options),
      signals_(kSignals),
      api_(options.api),
      http_(options.host, options.port, {},
            [this](HttpRequest request, std::shared_ptr<Reply> reply) {
              api_.handle(std::move(request), std::move(reply));
            }) {
  cluster::ignore_sigpipe();
  api_.set_address(options.host, http_.is_loopback());
  const AccessOptions& access = options.api.access;
  if (access.key.empty() && !http_.is_loopback()) {
    log::warn("everybody who can reach {} may use this server: it has no API key (--api-key-file)",
              http_.address());
  }
  http_.watch(signals_.fd(), [this] { take_signals(); });
  thread_ = std::thread([this] { http_.run(); });
}

Server::~Server() {
  http_.stop();
  thread_.join();
  api_.finish_loading();
}

void Server::take_signals() {
  for (const int signal : signals_.take()) take_signal(signal);
}

void Server::wait_for_helpers() {
  std::erase_if(options_.helpers, [](pid_t helper) {
    if (waitpid(helper, nullptr, WNOHANG) != helper) return false;
    log::warn("the process {}, which cleans up if this one is killed, has ended", helper);
    return true;
  });
}

void Server::take_signal(int signal) {
  if (signal == SIGCHLD) return wait_for_helpers();
  switch (requests_.take(signal)) {
    case cluster::StopRequests::Meaning::insists:
      _exit(128 + signal);
    case cluster::StopRequests::Meaning::repeated:
      return;
    case cluster::StopRequests::Meaning::first:
      if (!serving_) _exit(0);
      begin_draining(signal);
  }
}

void Server::begin_draining(int signal) {
  api_.begin_draining();
  log::info("{}: stopping; {} requests may finish first, within {}", cluster::signal_name(signal),
            http_.open_requests(), exact_duration(options_.drain_timeout));
  event_ = Event::stopping;
  event_.notify_all();
}

void Server::engine_lost() {
  api_.pause(true);
  Event none = Event::none;
  event_.compare_exchange_strong(none, Event::lost);
  event_.notify_all();
}

Server::Event Server::wait() {
  event_.wait(Event::none);
  return event_;
}

void Server::resume(models::Model& model, const ParallelContext* ranks) {
  engine_->resume(model, ranks);
  Event lost = Event::lost;
  event_.compare_exchange_strong(lost, Event::none);
  api_.pause(false);
}

// Waits until all requests are answered, but not longer than `time`.
void Server::await_answers(std::chrono::milliseconds time) const {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (http_.open_requests() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kDrainPoll);
  }
}

void Server::begin(ServedModel& model, std::unique_ptr<serve::Engine> engine) {
  engine_ = std::move(engine);
  metrics_.emplace(model.name());
  api_.begin_serving(model, *engine_, *metrics_);
  serving_ = true;
}

void Server::finish() {
  await_answers(options_.drain_timeout);
  if (const size_t left = http_.open_requests(); left > 0) {
    log::warn("{} requests did not finish in time and were cancelled", left);
  }
  api_.stop_rules();
  engine_.reset();  // cancels the requests that are left, which sends their answers
  await_answers(kGoodbye);
}

}  // namespace colossal::server
