#include "tests/support/rank_processes.h"

#include <ATen/Parallel.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>

#include "colossal/base/error.h"
#include "colossal/comm/shm.h"
#include "colossal/comm/store.h"
#include "tests/support/run_ranks.h"

namespace colossal::test {
namespace {

std::string run_in_this_process(const std::vector<std::string>& hosts, int rank,
                                const Listener& listener,
                                const std::function<std::string(const comm::Group&)>& body) {
  try {
    at::set_num_threads(1);
    const comm::Rendezvous rendezvous = rendezvous_at(listener, rank, std::ssize(hosts));
    const auto world = comm::shm_world(rendezvous, comm::open_store(rendezvous, kRankTimeout),
                                       hosts, kRankTimeout);
    std::vector<int> all(hosts.size());
    std::iota(all.begin(), all.end(), 0);
    return body(world->group("dp", all));
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

std::string RankProcess::result() const {
  std::string text;
  char buffer[1024];
  for (ssize_t got = 0; (got = read(pipe, buffer, sizeof buffer)) > 0;) text.append(buffer, got);
  close(pipe);
  waitpid(id, nullptr, 0);
  return text;
}

std::vector<RankProcess> start_ranks(const std::vector<std::string>& hosts,
                                     const std::function<std::string(const comm::Group&)>& body) {
  const Listener listener = listen_on_loopback();
  std::vector<RankProcess> processes;
  for (int rank = 0; rank < std::ssize(hosts); ++rank) {
    int ends[2];
    COLOSSAL_CHECK(pipe(ends) == 0, "no pipe: errno {}", errno);
    const pid_t id = fork();
    if (id != 0) {
      close(ends[1]);
      processes.push_back({id, ends[0]});
      continue;
    }
    const std::string text = run_in_this_process(hosts, rank, listener, body);
    [[maybe_unused]] const ssize_t written = write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(listener.fd);
  return processes;
}

}  // namespace colossal::test
