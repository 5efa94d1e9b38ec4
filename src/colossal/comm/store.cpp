#include "colossal/comm/store.h"

#include <arpa/inet.h>
#include <c10/util/Logging.h>
#include <netdb.h>
#include <poll.h>
#include <resolv.h>
#include <sys/socket.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/file_descriptor.h"
#include "colossal/base/units.h"
#include "colossal/comm/backend.h"

namespace colossal::comm {
namespace {

std::string address_of(const Rendezvous& rendezvous) {
  return fmt::format("{}:{}", rendezvous.address, rendezvous.port);
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList resolve(const Rendezvous& rendezvous) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(rendezvous.address.c_str(), std::to_string(rendezvous.port).c_str(),
                                &hints, &found);
  if (error != 0) {
    throw CommError(fmt::format("no such rendezvous address: {}: {}", address_of(rendezvous),
                                gai_strerror(error)));
  }
  return {found, &freeaddrinfo};
}

// Listens on the rendezvous address only. TCPStore itself would listen on all interfaces.
int listen_on(const Rendezvous& rendezvous) {
  const AddressList addresses = resolve(rendezvous);
  int error = 0;
  for (const addrinfo* candidate = addresses.get(); candidate; candidate = candidate->ai_next) {
    const int fd = socket(candidate->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      error = errno;
      continue;
    }
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, candidate->ai_addr, candidate->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) {
      return fd;
    }
    error = errno;
    close(fd);
  }
  throw CommError(fmt::format("cannot serve the rendezvous at {}: {}", address_of(rendezvous),
                              std::strerror(error)));
}

// While this exists, its thread asks no name server. TCPStore looks up the name of each
// connection's address, only for its messages. If name servers do not answer, each lookup takes
// five seconds or more.
class WithoutNameServers {
 public:
  WithoutNameServers() {
    if ((_res.options & RES_INIT) == 0) res_init();
    servers_ = std::exchange(_res.nscount, 0);
  }
  ~WithoutNameServers() { _res.nscount = servers_; }
  WithoutNameServers(const WithoutNameServers&) = delete;
  WithoutNameServers& operator=(const WithoutNameServers&) = delete;

 private:
  int servers_;
};

// c10d logs warnings, such as one for each name that WithoutNameServers keeps it from finding. What
// fails throws an exception anyway.
void silence_warnings() {
  static std::once_flag once;
  std::call_once(once, [] {
    constexpr int kErrors = 2;  // level of errors in c10/util/Logging.h
    FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, kErrors);
  });
}

std::string numeric(const addrinfo& address) {
  std::array<char, NI_MAXHOST> text{};
  getnameinfo(address.ai_addr, address.ai_addrlen, text.data(), text.size(), nullptr, 0,
              NI_NUMERICHOST);
  return text.data();
}

// Waits at most until the deadline: to an address that drops packets, connect() would wait for
// minutes.
bool accepts_connections(const addrinfo& candidate, const Deadline& deadline) {
  const FileDescriptor connection(
      socket(candidate.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection) return false;
  if (connect(connection.get(), candidate.ai_addr, candidate.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS) return false;
  pollfd connected{connection.get(), POLLOUT, 0};
  if (poll(&connected, 1, static_cast<int>(deadline.remaining().count())) != 1) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

// Returns the address at which the store is served. TCPStore's own client would log every failed
// attempt and sleep for a second between attempts.
std::string wait_until_served(const Rendezvous& rendezvous, const Deadline& deadline) {
  constexpr auto kPause = std::chrono::milliseconds(10);
  const AddressList addresses = resolve(rendezvous);
  while (true) {
    for (const addrinfo* candidate = addresses.get(); candidate; candidate = candidate->ai_next) {
      if (accepts_connections(*candidate, deadline)) return numeric(*candidate);
    }
    if (deadline.passed()) {
      throw CommError(fmt::format(
          "rank {}: {}", rendezvous.rank,
          deadline.failure("nobody serves the rendezvous at " + address_of(rendezvous)).what()));
    }
    std::this_thread::sleep_for(kPause);
  }
}

std::string arrival_key(int rank) {
  return fmt::format("arrived/{}", rank);
}

std::string describe_missing(c10d::Store& store, const Rendezvous& rendezvous,
                             const Deadline& deadline) {
  std::string missing;
  for (int rank = 0; rank < rendezvous.size; ++rank) {
    if (store.check({arrival_key(rank)})) continue;
    missing += fmt::format("{}rank {}", missing.empty() ? "" : ", ", rank);
  }
  const CallFailure failure =
      deadline.failure(fmt::format("{} of {} did not come to the rendezvous at {}", missing,
                                   rendezvous.size, address_of(rendezvous)));
  return fmt::format("rank {}: {}", rendezvous.rank, failure.what());
}

// Polls, less and less often, because a wait of the store itself logs when it times out.
void wait_for_keys(c10d::Store& store, const std::vector<std::string>& keys,
                   const Rendezvous& rendezvous, const Deadline& deadline) {
  auto pause = std::chrono::milliseconds(1);
  constexpr auto kLongestPause = std::chrono::milliseconds(100);
  while (!store.check(keys)) {
    if (deadline.passed()) throw CommError(describe_missing(store, rendezvous, deadline));
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace

std::string reason_of(const std::exception& error) {
  const auto* with_backtrace = dynamic_cast<const c10::Error*>(&error);
  return with_backtrace ? with_backtrace->what_without_backtrace() : error.what();
}

StorePointer open_store(const Rendezvous& rendezvous, std::chrono::milliseconds timeout) {
  const bool serves = rendezvous.rank == 0 && !rendezvous.store_is_served;
  silence_warnings();
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(rendezvous.port);
  options.waitWorkers = false;
  options.timeout = timeout;
  options.isServer = serves;
  if (serves) {
    options.masterListenFd =
        rendezvous.listen_fd >= 0 ? rendezvous.listen_fd : listen_on(rendezvous);
  }
  const std::string address =
      serves ? numeric(*resolve(rendezvous)) : wait_until_served(rendezvous, Deadline(timeout));
  try {
    const WithoutNameServers on_this_thread;
    auto store = c10::make_intrusive<c10d::TCPStore>(address, options);
    return c10::make_intrusive<c10d::PrefixStore>("colossal/" + rendezvous.prefix,
                                                  std::move(store));
  } catch (const std::exception& error) {
    throw CommError(fmt::format("rank {}: no rendezvous at {}: {}", rendezvous.rank,
                                address_of(rendezvous), reason_of(error)));
  }
}

std::string wait_for(c10d::Store& store, const std::string& key,
                     std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  while (!store.check({key})) {
    if (deadline.passed()) return "";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return store.get_to_str(key);
}

std::vector<Arrival> meet_all(c10d::Store& store, const Rendezvous& rendezvous, const Arrival& own,
                              std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < rendezvous.size; ++rank) keys.push_back(arrival_key(rank));
  try {
    store.set(keys[rendezvous.rank], fmt::format("{} {} {}", own.gpus, own.settings, own.host));
    wait_for_keys(store, keys, rendezvous, Deadline(timeout));
    std::vector<Arrival> arrivals;
    for (const std::vector<uint8_t>& value : store.multiGet(keys)) {
      std::istringstream text(std::string(value.begin(), value.end()));
      Arrival arrival;
      text >> arrival.gpus >> arrival.settings >> std::ws;
      std::getline(text, arrival.host);
      arrivals.push_back(std::move(arrival));
    }
    return arrivals;
  } catch (const c10::Error& error) {
    throw CommError(fmt::format("rank {}: the rendezvous at {} failed: {}", rendezvous.rank,
                                address_of(rendezvous), reason_of(error)));
  }
}

}  // namespace colossal::comm
