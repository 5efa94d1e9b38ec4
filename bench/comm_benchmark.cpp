// Times collectives between real processes of this host:
//   comm_benchmark BACKEND[-shared] RANKS SECONDS BYTES...
// forks RANKS ranks of one thread, joins them with comm::connect(.., BACKEND, ..) and prints for
// each collective and number of bytes one JSON line. BYTES is the whole buffer (fp32); each figure
// takes about SECONDS. A call is timed on rank 0, calls follow each other without a pause. BACKEND
// "shm+gloo" takes the first half of the ranks and the second for two hosts; with "-shared" buffers
// are made by comm::shared_empty().
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/comm/shm.h"
#include "colossal/comm/world.h"

namespace colossal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kTimeout{5};
constexpr double kMinCalls = 5;
constexpr double kMaxCalls = 2000;

struct Options {
  std::string backend;
  bool shared;
  int ranks;
  double seconds;
  std::vector<int64_t> sizes;
};

double seconds_of(const std::function<void()>& call) {
  const Clock::time_point start = Clock::now();
  call();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Rank 0's number of calls that fill the time, on all ranks.
int64_t agree_on_calls(const comm::Group& group, double seconds, double one_call) {
  const at::Tensor calls =
      at::full({1}, std::clamp(seconds / one_call, kMinCalls, kMaxCalls), at::kDouble);
  comm::broadcast(calls, 0, group, comm::Reason::control);
  return static_cast<int64_t>(calls.item<double>());
}

void check_sum(const at::Tensor& sum, double expected) {
  COLOSSAL_CHECK(sum[-1].item<double>() == expected, "a collective gave {}, not {}",
                 sum[-1].item<double>(), expected);
}

void measure(const char* operation, int64_t bytes, const comm::Group& group, double seconds,
             const std::function<void()>& call) {
  call();  // connections and buffers are made at first use
  const int64_t calls = agree_on_calls(group, seconds, seconds_of(call));
  std::vector<double> times;
  for (int64_t i = 0; i < calls; ++i) times.push_back(seconds_of(call));
  if (group.rank() != 0) return;
  std::sort(times.begin(), times.end());
  fmt::print(
      "{{\"operation\": \"{}\", \"bytes\": {}, \"calls\": {}, \"seconds_min\": {:.3g}, "
      "\"seconds\": {:.4g}, \"seconds_max\": {:.3g}}}\n",
      operation, bytes, calls, times.front(), times[times.size() / 2], times.back());
  std::fflush(stdout);
}

void measure_size(int64_t bytes, const comm::Group& group, const Options& options) {
  const double seconds = options.seconds;
  const int64_t part_numel = bytes / static_cast<int64_t>(sizeof(float)) / group.size();
  const std::vector<int64_t> counts(group.size(), part_numel);
  const int64_t numel = part_numel * group.size();
  const at::Tensor full =
      options.shared ? comm::shared_empty(numel, at::kFloat, group) : at::empty({numel});
  full.fill_(1);
  const at::Tensor part = full.narrow(0, group.rank() * part_numel, part_numel);

  comm::reduce_scatter(full, part, counts, group, comm::Reason::gradient);
  check_sum(part, group.size());
  full.fill_(1);
  comm::all_reduce(full, group, comm::Reason::gradient);
  check_sum(full, group.size());

  full.zero_();  // sums of zeros stay finite however many calls there are
  measure("all_reduce", bytes, group, seconds,
          [&] { comm::all_reduce(full, group, comm::Reason::gradient); });
  measure("reduce_scatter", bytes, group, seconds,
          [&] { comm::reduce_scatter(full, part, counts, group, comm::Reason::gradient); });
  measure("all_gather", bytes, group, seconds,
          [&] { comm::all_gather(full, counts, group, comm::Reason::parameter); });
}

std::unique_ptr<comm::World> join(const Options& options, const comm::Rendezvous& rendezvous) {
  if (options.backend != "shm+gloo") return comm::connect(rendezvous, options.backend, kTimeout);
  std::vector<std::string> hosts;
  for (int rank = 0; rank < options.ranks; ++rank) {
    hosts.push_back(2 * rank < options.ranks ? "first" : "second");
  }
  return comm::shm_world(rendezvous, comm::open_store(rendezvous, kTimeout), hosts, kTimeout);
}

void run_rank(const Options& options, int rank, int listening, int port) {
  at::set_num_threads(1);
  const auto world = join(
      options,
      {.rank = rank, .size = options.ranks, .port = port, .listen_fd = rank == 0 ? listening : -1});
  std::vector<int> ranks(options.ranks);
  for (int i = 0; i < options.ranks; ++i) ranks[i] = i;
  const comm::Group group = world->group("dp", ranks);
  for (const int64_t bytes : options.sizes) measure_size(bytes, group, options);
  comm::barrier(group);
}

// A socket that listens on a free port of loopback.
std::pair<int, int> listen_on_loopback() {
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof(address);
  const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::bind(listening, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(listening, 64) != 0 ||
      ::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw IoError("no socket can listen on 127.0.0.1");
  }
  return {listening, ntohs(address.sin_port)};
}

// Ranks are forked before LibTorch starts a thread. Returns the first exit code that is not 0.
int run_ranks(const Options& options) {
  const auto [listening, port] = listen_on_loopback();
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child < 0) throw IoError("fork failed");
    if (child > 0) continue;
    try {
      run_rank(options, rank, listening, port);
    } catch (const std::exception& error) {
      fmt::print(stderr, "rank {}: {}\n", rank, error.what());
      std::_Exit(1);
    }
    std::_Exit(0);
  }
  ::close(listening);
  int result = 0;
  for (int status = 0; ::wait(&status) > 0;) {
    if (status != 0 && result == 0) result = WIFEXITED(status) ? WEXITSTATUS(status) : 3;
  }
  return result;
}

}  // namespace
}  // namespace colossal

int main(int argc, char** argv) {
  if (argc < 5) {
    fmt::print(stderr, "usage: {} BACKEND[-shared] RANKS SECONDS BYTES...\n", argv[0]);
    return 2;
  }
  constexpr std::string_view kShared = "-shared";
  std::string backend = argv[1];
  const bool shared = backend.ends_with(kShared);
  if (shared) backend.resize(backend.size() - kShared.size());
  colossal::Options options{backend, shared, std::stoi(argv[2]), std::stod(argv[3]), {}};
  for (int i = 4; i < argc; ++i) options.sizes.push_back(std::stoll(argv[i]));
  return colossal::run_ranks(options);
}
