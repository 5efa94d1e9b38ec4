#include "tests/support/run_ranks.h"

#include <ATen/Parallel.h>
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/comm/shm.h"
#include "colossal/comm/staged.h"
#include "colossal/comm/store.h"

namespace colossal::test {
namespace {

struct Place {
  const char* file;
  int line;
  std::string what;
};
thread_local std::vector<Place> cases;  // of this thread, the innermost last

using WorldMaker = std::function<std::unique_ptr<comm::World>(int rank)>;

// The first exception of all ranks, and the first that is no CommError.
class Failures {
 public:
  void record(int rank, std::exception_ptr error, bool is_comm_error) {
    const std::lock_guard lock(mutex_);
    auto& slot = is_comm_error ? comm_ : other_;
    if (!slot) slot = {rank, std::move(error)};
  }

  void rethrow() const {
    if (other_) rethrow(*other_);
    if (comm_) rethrow(*comm_);
  }

 private:
  struct Failure {
    int rank;
    std::exception_ptr error;
  };

  [[noreturn]] static void rethrow(const Failure& failure) {
    const auto named = [&](const std::exception& error) {
      return fmt::format("rank {}: {}", failure.rank, error.what());
    };
    try {
      std::rethrow_exception(failure.error);
    } catch (const ConfigError& error) {
      throw ConfigError(named(error));
    } catch (const IoError& error) {
      throw IoError(named(error));
    } catch (const CommError& error) {
      throw CommError(named(error));
    } catch (const InternalError& error) {
      throw InternalError(named(error));
    } catch (const std::exception& error) {
      throw std::runtime_error(named(error));
    }
  }

  std::mutex mutex_;
  std::optional<Failure> other_;
  std::optional<Failure> comm_;
};

void run_rank(int rank, const WorldMaker& make_world, const RankBody& body, Failures& failures) {
  at::set_num_threads(1);
  std::unique_ptr<comm::World> world;
  try {
    world = make_world(rank);
    body(*world);
  } catch (const std::exception& error) {
    const bool is_comm_error = dynamic_cast<const CommError*>(&error) != nullptr;
    failures.record(rank, std::current_exception(), is_comm_error);
    if (world) world->abort(error.what());
  }
}

void run_threads(int ranks, const WorldMaker& make_world, const RankBody& body) {
  Failures failures;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank, traced = cases] {
      std::deque<TracedCase> traces;
      for (const Place& place : traced) {
        traces.emplace_back(place.file, place.line, testing::Message() << place.what);
      }
      run_rank(rank, make_world, body, failures);
    });
  }
  for (std::thread& thread : threads) thread.join();
  failures.rethrow();
}

}  // namespace

void run_ranks(int ranks, const RankBody& body, std::chrono::milliseconds timeout) {
  auto worlds = comm::local_worlds(ranks, timeout);
  run_threads(
      ranks, [&](int rank) { return std::move(worlds[rank]); }, body);
}

void run_staged_ranks(int ranks, const RankBody& body, std::chrono::milliseconds timeout) {
  auto worlds = comm::local_worlds(ranks, timeout);
  run_threads(
      ranks, [&](int rank) { return comm::staged_world(std::move(worlds[rank]), c10::kCPU); },
      body);
}

void run_ranks_over(const std::string& backend, int ranks, const RankBody& body,
                    std::chrono::milliseconds timeout) {
  const Listener listener = listen_on_loopback();
  const auto connect = [&](int rank) {
    return comm::connect(rendezvous_at(listener, rank, ranks),
                         {.backend = backend, .device = backend == "nccl" ? "gpu" : "cpu"},
                         timeout);
  };
  run_threads(ranks, connect, body);
}

void run_ranks_on(const std::vector<std::string>& hosts, const RankBody& body,
                  std::chrono::milliseconds timeout) {
  const Listener listener = listen_on_loopback();
  const int ranks = static_cast<int>(hosts.size());
  const auto connect = [&](int rank) {
    const comm::Rendezvous rendezvous = rendezvous_at(listener, rank, ranks);
    return comm::shm_world(rendezvous, comm::open_store(rendezvous, timeout), hosts, timeout);
  };
  run_threads(ranks, connect, body);
}

TracedCase::TracedCase(const char* file, int line, const testing::Message& what)
    : trace_(file, line, what) {
  cases.push_back({file, line, what.GetString()});
}

TracedCase::~TracedCase() {
  cases.pop_back();
}

Listener listen_on_loopback() {
  Listener listener;
  listener.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* any_address = reinterpret_cast<sockaddr*>(&address);
  const bool listening = listener.fd >= 0 && bind(listener.fd, any_address, length) == 0 &&
                         listen(listener.fd, SOMAXCONN) == 0 &&
                         getsockname(listener.fd, any_address, &length) == 0;
  COLOSSAL_CHECK(listening, "no listening socket on loopback: errno {}", errno);
  listener.port = ntohs(address.sin_port);
  return listener;
}

comm::Rendezvous rendezvous_at(const Listener& listener, int rank, int ranks) {
  return {.rank = rank,
          .size = ranks,
          .port = listener.port,
          .listen_fd = rank == 0 ? listener.fd : -1,
          .prefix = "test"};
}

}  // namespace colossal::test
