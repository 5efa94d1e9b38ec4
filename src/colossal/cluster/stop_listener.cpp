#include "colossal/cluster/stop_listener.h"

#include <poll.h>
#include <unistd.h>

#include "colossal/base/log.h"
#include "colossal/cluster/failure.h"

namespace colossal::cluster {
namespace {

constexpr std::array kHeard{SIGINT, SIGTERM, SIGUSR1, SIGHUP};
constexpr int kTidyUpMilliseconds = 500;
constexpr int kForEver = -1;

// Logs only if stderr does not block: a second request to stop must still be heard.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  pollfd output{STDERR_FILENO, POLLOUT, 0};
  if (poll(&output, 1, 0) > 0) log::info(format, std::forward<Args>(args)...);
}

}  // namespace

StopListener::StopListener() : signals_(kHeard), thread_([this] { listen(); }) {}

StopListener::~StopListener() {
  end_.write_end.close();
  thread_.join();
}

void StopListener::end_set_up(std::string answer) {
  const std::lock_guard lock(mutex_);
  if (requested_) throw StoppedInSetUp();
  answer_ = std::move(answer);
}

bool StopListener::requested_in_set_up() const {
  const std::lock_guard lock(mutex_);
  return requested_ && answer_.empty();
}

void StopListener::listen() {
  while (!wait_for_end(kForEver)) {
    for (const int signal : signals_.take()) take(signal);
  }
}

void StopListener::take(int signal) {
  if (signal == SIGHUP) return say("SIGHUP: the terminal was closed; the run continues");
  const StopRequests::Meaning meaning = requests_.take(signal);
  if (meaning == StopRequests::Meaning::insists) _exit(128 + signal);
  if (meaning == StopRequests::Meaning::repeated) return;
  if (const std::string answer = answer_request(); !answer.empty()) {
    return say("{}: {}", signal_name(signal), answer);
  }
  say("{}: stopped before the first step; nothing is lost, the same command starts again",
      signal_name(signal));
  pollfd end{end_.read_end.get(), POLLIN, 0};
  if (poll(&end, 1, kTidyUpMilliseconds) == 0) _exit(kStoppedExitCode);
}

std::string StopListener::answer_request() {
  const std::lock_guard lock(mutex_);
  requested_ = true;
  return answer_;
}

// Waits until a signal comes or the listener ends. Returns true at its end.
bool StopListener::wait_for_end(int milliseconds) const {
  pollfd polled[] = {{signals_.fd(), POLLIN, 0}, {end_.read_end.get(), POLLIN, 0}};
  poll(polled, std::size(polled), milliseconds);
  return polled[1].revents != 0;
}

}  // namespace colossal::cluster
