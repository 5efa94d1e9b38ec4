// A launcher and its ranks for tests, without tensors:
//   cluster_rank_program launch N ARGS...          run_local_ranks() of itself with ARGS
//   cluster_rank_program launch-elastic N MIN MAX_RESTARTS FOLDER ARGS...  run_elastic_ranks(); a
//     number in FOLDER/request is a request; it runs on 1 rank and on even numbers of ranks
//   cluster_rank_program run OPTIONS -- PROGRAM... `colossal run`
//   cluster_rank_program BEHAVIOUR ...             does what a rank does, see behave()
// Arguments that a behaviour does not use serve to find its processes.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/cluster/elastic_launcher.h"
#include "colossal/cluster/host_list.h"
#include "colossal/cluster/launch_environment.h"
#include "colossal/cluster/local_launcher.h"
#include "colossal/cluster/run.h"
#include "colossal/cluster/socket.h"
#include "colossal/cluster/stop_listener.h"

namespace {

using namespace colossal;
using namespace colossal::cluster;
using namespace std::chrono_literals;
using Arguments = std::vector<std::string>;

// Short, so that tests are quick, but long enough for a busy machine.
constexpr Grace kShortGrace{.by_themselves = 400ms, .after_sigterm = 400ms};

[[noreturn]] void sleep_for_ever() {
  while (true) std::this_thread::sleep_for(1h);
}

void print(const std::string& line) {
  // Written at once, so that it does not mix with other ranks' lines.
  const std::string text = line + "\n";
  if (write(STDOUT_FILENO, text.data(), text.size()) < 0) std::abort();
}

void print_environment(const LaunchEnvironment& launch) {
  const comm::Rendezvous& meeting = launch.rendezvous;
  print(fmt::format(
      "rank={} size={} local={}/{} hosts={} address={} interface={} port={} "
      "served={} listens={} prefix={} launcher={}",
      meeting.rank, meeting.size, launch.local_rank, launch.local_size, launch.num_hosts,
      meeting.address, meeting.interface_address, meeting.port > 0 ? "set" : "none",
      meeting.store_is_served, meeting.listen_fd >= 0, meeting.prefix, launch.launcher));
}

// Each other rank connects to rank 0's store socket. Rank 0 prints a line when all have connected.
void meet(const comm::Rendezvous& meeting) {
  if (meeting.rank == 0) {
    FileDescriptor listener(meeting.listen_fd);
    std::vector<FileDescriptor> met;
    while (static_cast<int>(met.size()) + 1 < meeting.size) {
      if (auto connection = accept_connection(listener)) met.push_back(std::move(connection));
      std::this_thread::sleep_for(1ms);
    }
    print(fmt::format("all {} ranks met", meeting.size));
    return;
  }
  while (!try_connect(meeting.interface_address, meeting.address, meeting.port)) {
    std::this_thread::sleep_for(10ms);
  }
}

// who: "rank 0" or "rank 0 of 2". Prints that it trains when it can be stopped.
[[noreturn]] void stop_orderly(int rank, const std::string& who) {
  StopListener stop;
  stop.end_set_up("finishing the step");
  print(who + " trains");
  while (!stop.requested()) std::this_thread::sleep_for(5ms);
  std::this_thread::sleep_for(50ms);  // the rest of the step
  print(fmt::format("rank {} saved", rank));
  std::_Exit(kStoppedExitCode);
}

[[noreturn]] void never_stop(int rank) {
  StopListener stop;
  stop.end_set_up("going on");
  print(fmt::format("rank {} trains", rank));
  while (true) {
    std::this_thread::sleep_for(5ms);
    if (stop.requested()) print("asked to stop");
  }
}

[[noreturn]] void set_up(int rank) {
  StopListener stop;
  print(fmt::format("rank {} is being set up", rank));
  sleep_for_ever();
}

int64_t size_of(const std::filesystem::path& file) {
  return std::filesystem::exists(file) ? static_cast<int64_t>(std::filesystem::file_size(file)) : 0;
}

[[noreturn]] void fail(const LaunchEnvironment& launch, int code, const std::string& message) {
  if (!send_error(launch, message)) log::error("{}", message);
  std::exit(code);
}

// Dies in the first `times` starts in which it is rank `victim`; otherwise trains. Where the folder
// has a file `saves`, each death comes after a save: a longer `progress`, of which rank 0 tells.
[[noreturn]] void die_at_first(const LaunchEnvironment& launch, const std::filesystem::path& folder,
                               int times, int victim) {
  const std::filesystem::path deaths = folder / "deaths";
  const int rank = launch.rendezvous.rank, size = launch.rendezvous.size;
  if (rank == 0 && std::filesystem::exists(folder / "saves")) send_progress(launch);
  if (size_of(deaths) < times && victim < size) {
    if (rank == victim) {
      std::this_thread::sleep_for(50ms);
      if (std::filesystem::exists(folder / "saves")) {
        std::ofstream(folder / "progress", std::ios::app) << 'x';
      }
      std::ofstream(deaths, std::ios::app) << 'x';
      raise(SIGKILL);
    }
    std::this_thread::sleep_for(200ms);
    fail(launch, 3, "a peer is lost");
  }
  stop_orderly(rank, fmt::format("rank {} of {}", rank, size));
}

int behave(const LaunchEnvironment& launch, const Arguments& arguments) {
  const std::string& behaviour = arguments[0];
  const int rank = launch.rendezvous.rank;
  const auto number = [&](size_t i) { return std::stoi(arguments.at(i)); };
  if (behaviour == "print-environment") {
    print_environment(launch);
  } else if (behaviour == "meet") {
    meet(launch.rendezvous);
  } else if (behaviour == "sleep") {
    print(fmt::format("rank {} sleeps", rank));
    sleep_for_ever();
  } else if (behaviour == "exit-one") {  // RANK CODE: it fails, the others sleep
    if (rank == number(1)) fail(launch, number(2), "the disk is full");
    sleep_for_ever();
  } else if (behaviour == "exit-all") {  // CODE
    fail(launch, number(1), "there is no such key");
  } else if (behaviour == "kill") {  // RANK SIGNAL; the others see it as a lost peer
    if (rank == number(1)) raise(number(2));
    std::this_thread::sleep_for(100ms);
    fail(launch, 3, "a peer is lost");
  } else if (behaviour == "kill-among-deaf") {  // RANK SIGNAL; the others notice nothing
    std::signal(SIGTERM, SIG_IGN);
    if (rank == number(1)) {
      std::this_thread::sleep_for(100ms);
      raise(number(2));
    }
    sleep_for_ever();
  } else if (behaviour == "kill-late") {  // RANK SIGNAL, when the others have long ended well
    if (rank != number(1)) return 0;
    std::this_thread::sleep_for(200ms);
    raise(number(2));
  } else if (behaviour == "deaf") {
    for (const int signal : kStopSignals) std::signal(signal, SIG_IGN);
    print(fmt::format("rank {} sleeps", rank));
    sleep_for_ever();
  } else if (behaviour == "train") {
    stop_orderly(rank, fmt::format("rank {}", rank));
  } else if (behaviour == "die-at-first") {  // FOLDER TIMES RANK
    die_at_first(launch, arguments.at(1), number(2), number(3));
  } else if (behaviour == "refuse-more-than") {  // RANKS
    if (launch.rendezvous.size > number(1)) fail(launch, 2, "too many ranks");
    stop_orderly(rank, fmt::format("rank {} of {}", rank, launch.rendezvous.size));
  } else if (behaviour == "set-up") {
    set_up(rank);
  } else if (behaviour == "never-stop") {
    never_stop(rank);
  } else if (behaviour == "with-child") {
    if (fork() == 0) sleep_for_ever();
    print(fmt::format("rank {} sleeps", rank));
    sleep_for_ever();
  } else {
    throw ConfigError(fmt::format("no behaviour '{}'", behaviour));
  }
  return 0;
}

std::optional<int> take_request(const std::filesystem::path& file) {
  int wanted = 0;
  if (!(std::ifstream(file) >> wanted)) return std::nullopt;
  std::filesystem::remove(file);
  return wanted;
}

int launch_elastic(const Arguments& arguments) {
  const std::filesystem::path folder = arguments.at(4);
  const Arguments command(arguments.begin() + 5, arguments.end());
  return run_elastic_ranks(
      {.program = "/proc/self/exe",
       .arguments = command,
       .num_ranks = std::stoi(arguments.at(1)),
       .grace = kShortGrace},
      {.min_ranks = std::stoi(arguments.at(2)),
       .max_restarts = std::stoi(arguments.at(3)),
       .arguments =
           [&](int ranks) {
             if (ranks > 1 && ranks % 2 == 1) throw ConfigError("the number of ranks is odd");
             return command;
           },
       .restart_arguments = {"again"},
       .progress = [&](const std::string&) { return size_of(folder / "progress"); },
       .requested = [&] { return take_request(folder / "request"); },
       .report =
           [](int ranks, const std::string& error) {
             print(fmt::format("report: {} ranks{}", ranks, error.empty() ? "" : ", " + error));
           }});
}

int run_with_options(const Arguments& arguments) {
  RunOptions options{.grace = kShortGrace};
  size_t i = 0;
  for (; arguments.at(i) != "--"; i += 2) {
    const std::string& name = arguments[i];
    const std::string& value = arguments.at(i + 1);
    if (name == "-n") options.num_ranks = std::stoi(value);
    if (name == "--hosts") options.hosts = expand_host_list(value);
    if (name == "--host-index") options.host_index = std::stoi(value);
    if (name == "--port") options.port = std::stoi(value);
    if (name == "--min-hosts") options.min_hosts = std::stoi(value);
    if (name == "--max-restarts") options.max_restarts = std::stoi(value);
    if (name == "--timeout") options.join_timeout = std::chrono::seconds(std::stoi(value));
  }
  options.command.assign(arguments.begin() + i + 1, arguments.end());
  return run(options);
}

int act(const Arguments& arguments) {
  ignore_sigpipe();
  if (arguments[0] == "launch") {
    return run_local_ranks({.program = "/proc/self/exe",
                            .arguments = {arguments.begin() + 2, arguments.end()},
                            .num_ranks = std::stoi(arguments.at(1)),
                            .grace = kShortGrace});
  }
  if (arguments[0] == "launch-elastic") return launch_elastic(arguments);
  if (arguments[0] == "run") return run_with_options({arguments.begin() + 1, arguments.end()});
  const auto launch = read_launch_environment();
  if (!launch) throw ConfigError("nobody launched this process as a rank");
  return behave(*launch, arguments);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return act({argv + 1, argv + argc});
  } catch (const ConfigError& error) {
    log::error("{}", error.what());
    return 2;
  } catch (const CommError& error) {
    log::error("{}", error.what());
    return 3;
  } catch (const Error& error) {
    log::error("{}", error.what());
    return 1;
  }
}
