#include "colossal/cluster/elastic_launcher.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/cluster/memory_folder.h"
#include "colossal/cluster/signal_queue.h"
#include "colossal/cluster/supervisor.h"

namespace colossal::cluster {
namespace {

using Clock = std::chrono::steady_clock;

void check(const LaunchOptions& launch, const ElasticOptions& elastic) {
  if (elastic.min_ranks < 1 || elastic.min_ranks > launch.num_ranks) {
    throw ConfigError(fmt::format("--min-ranks is {}; expected 1 to {}, the number of ranks",
                                  elastic.min_ranks, launch.num_ranks));
  }
  if (elastic.max_restarts < 0) {
    throw ConfigError(
        fmt::format("--max-restarts is {}; it must be 0 or more", elastic.max_restarts));
  }
}

class ElasticLauncher {
 public:
  ElasticLauncher(const LaunchOptions& launch, const ElasticOptions& elastic)
      : elastic_(elastic),
        launch_(launch),
        signals_(kSupervisedSignals),
        guard_(memory_folder_.path()),
        policy_(elastic.max_restarts) {
    launch_.elastic = true;
    launch_.memory_folder = memory_folder_.path();
  }

  int run() {
    if (any_stop_signal(signals_.take())) return stop_before_start();
    launch_ = with_ranks(launch_.num_ranks);
    for (bool is_first = true;; is_first = false) {
      const int64_t progress = progress_now();
      const Clock::time_point started = Clock::now();
      Supervisor supervisor(start_local_ranks(launch_now(is_first), guard_), channel_, signals_,
                            {.grace = launch_.grace,
                             .program_is_ours = launch_.program_is_ours,
                             .pause_wanted = [this] { return is_change_wanted(); }});
      report(std::exchange(refusal_, ""));
      const int exit_code = supervisor.run();
      if (supervisor.paused()) {
        log::info("the job continues on {}", ranks_text(next_.num_ranks));
        change_to(next_);
      } else if (before_change_ && supervisor.configuration_failed()) {
        go_back();
      } else if (!supervisor.may_restart() ||
                 !prepare_restart(has_progressed(supervisor, progress, started))) {
        return conclude(exit_code);
      } else if (stop_comes_within(policy_.pause())) {
        return conclude(kStoppedExitCode);
      } else if (supervisor.pausing()) {
        change_to(next_);  // as the user has asked before the failure
      }
    }
  }

 private:
  int conclude(int exit_code) const {
    if (elastic_.before_end) {
      try {
        elastic_.before_end(memory_folder_.path());
      } catch (const Error& error) {
        log::error("the checkpoint in memory is lost: {}", error.what());
      }
    }
    if (exit_code == kStoppedExitCode) {
      log::info("stopped; to continue the job, use the same command");
    }
    return exit_code;
  }

  void change_to(const LaunchOptions& changed) {
    before_change_ = launch_;
    launch_ = changed;
  }

  // Undoes the last change_to(), because the ranks have refused it.
  void go_back() {
    refusal_ = fmt::format("the ranks cannot run on {}; see the messages of the run",
                           ranks_text(launch_.num_ranks));
    launch_ = *before_change_;
    before_change_.reset();
    log::warn("{}; the job goes back to {}", refusal_, ranks_text(launch_.num_ranks));
  }

  LaunchOptions launch_now(bool is_first) const {
    LaunchOptions launch = launch_;
    if (!is_first)
      std::ranges::copy(elastic_.restart_arguments, std::back_inserter(launch.arguments));
    return launch;
  }

  LaunchOptions with_ranks(int num_ranks) const {
    LaunchOptions changed = launch_;
    changed.num_ranks = num_ranks;
    if (elastic_.arguments) changed.arguments = elastic_.arguments(num_ranks);
    return changed;
  }

  // Whether the user has asked for another number of ranks on which the program can run. If so,
  // sets next_.
  bool is_change_wanted() {
    const std::optional<int> wanted = elastic_.requested ? elastic_.requested() : std::nullopt;
    if (!wanted) return false;
    try {
      if (*wanted < 1) throw ConfigError(fmt::format("{} ranks: must be at least 1", *wanted));
      if (*wanted == launch_.num_ranks) {
        report("");
        return false;
      }
      next_ = with_ranks(*wanted);
    } catch (const Error& error) {
      log::warn("the job stays on {}: {}", ranks_text(launch_.num_ranks), error.what());
      report(error.what());
      return false;
    }
    log::info("asked to continue on {}: saving first", ranks_text(*wanted));
    return true;
  }

  // Decides how the job starts again after a failure. Returns false if it does not.
  bool prepare_restart(bool progressed) {
    switch (policy_.after_failure(progressed)) {
      case RestartPolicy::Decision::give_up:
        log::error("the job has failed {} times without progress; --max-restarts is {}",
                   policy_.restarts() + 1, policy_.max_restarts());
        return false;
      case RestartPolicy::Decision::smaller:
        use_fewer_ranks();
        break;
      case RestartPolicy::Decision::same:
        break;
    }
    log::info("starting again on {}: restart {} of at most {} without progress",
              ranks_text(launch_.num_ranks), policy_.restarts(), policy_.max_restarts());
    return true;
  }

  // Changes launch_ to the next smaller number of ranks that the program accepts, if there is one.
  void use_fewer_ranks() {
    for (int fewer = launch_.num_ranks - 1; fewer >= elastic_.min_ranks; --fewer) {
      try {
        return change_to(with_ranks(fewer));
      } catch (const Error&) {
        // The layout does not work on this number of ranks.
      }
    }
  }

  // Whether ranks that have started at `started`, when progress_now() was `before`, have made
  // progress.
  bool has_progressed(Supervisor& supervisor, int64_t before, Clock::time_point started) const {
    if (elastic_.progress) return progress_now() > before;
    return supervisor.has_progressed() || Clock::now() - started >= kProgressTime;
  }

  int64_t progress_now() const {
    return elastic_.progress ? elastic_.progress(memory_folder_.path()) : 0;
  }

  void report(const std::string& error) const {
    if (elastic_.report) elastic_.report(launch_.num_ranks, error);
  }

  // Waits until a stop signal arrives or the time has passed. Returns whether one has arrived.
  bool stop_comes_within(std::chrono::seconds time) {
    const Clock::time_point end = Clock::now() + time;
    while (true) {
      if (any_stop_signal(signals_.take())) return true;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
      if (left.count() <= 0) return false;
      pollfd polled{signals_.fd(), POLLIN, 0};
      poll(&polled, 1, static_cast<int>(left.count()));
    }
  }

  const ElasticOptions& elastic_;
  MemoryFolder memory_folder_;
  LaunchOptions launch_;                        // of the current start
  LaunchOptions next_;                          // of the next start, after a pause
  std::optional<LaunchOptions> before_change_;  // launch_ before the number of ranks last changed
  std::string refusal_;  // why the number of ranks could not be changed, for report()
  SignalQueue signals_;
  OrphanGuard guard_;
  ControlChannel channel_;  // to no other host
  RestartPolicy policy_;
};

}  // namespace

std::string ranks_text(int num_ranks) {
  return num_ranks == 1 ? "1 rank" : fmt::format("{} ranks", num_ranks);
}

int run_elastic_ranks(const LaunchOptions& launch, const ElasticOptions& elastic) {
  check(launch, elastic);
  return ElasticLauncher(launch, elastic).run();
}

}  // namespace colossal::cluster
