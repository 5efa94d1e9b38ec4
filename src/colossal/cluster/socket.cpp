#include "colossal/cluster/socket.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "colossal/base/error.h"

namespace colossal::cluster {
namespace {

constexpr int kConnectMilliseconds = 1000;
constexpr int kLostPeerProbes =
    3;  // the first after a second of silence, the others a second apart

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Returns all addresses of `host`, with `port`; null if there is none.
AddressList look_up(const std::string& host, int port, int flags, int type, int* status) {
  addrinfo hints{};
  hints.ai_socktype = type;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  *status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  return {*status == 0 ? list : nullptr, &freeaddrinfo};
}

AddressList numeric_address(const std::string& address, int port, int type) {
  int status = 0;
  AddressList list = look_up(address, port, AI_NUMERICHOST, type, &status);
  COLOSSAL_CHECK(list, "'{}' is not a numeric address", address);
  return list;
}

std::string to_string(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST] = {};
  getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

using GetName = int (*)(int, sockaddr*, socklen_t*);

sockaddr_storage socket_name(int fd, GetName get_name, socklen_t* size) {
  sockaddr_storage name{};
  *size = sizeof name;
  get_name(fd, reinterpret_cast<sockaddr*>(&name), size);
  return name;
}

std::string address_of(int fd, GetName get_name) {
  socklen_t size = 0;
  const sockaddr_storage name = socket_name(fd, get_name, &size);
  return to_string(reinterpret_cast<const sockaddr*>(&name), size);
}

void set_option(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

void add_once(std::vector<std::string>& addresses, std::string address) {
  if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
    addresses.push_back(std::move(address));
  }
}

}  // namespace

std::vector<std::string> resolve(const std::string& host) {
  int status = 0;
  const AddressList list = look_up(host, 0, 0, SOCK_STREAM, &status);
  if (!list) {
    throw ConfigError(
        fmt::format("host '{}' has no address: {}; give a host name that resolves "
                    "here, or its address",
                    host, gai_strerror(status)));
  }
  std::vector<std::string> addresses;
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    add_once(addresses, to_string(a->ai_addr, a->ai_addrlen));
  }
  return addresses;
}

std::vector<std::string> own_addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(first, &freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* a = first; a != nullptr; a = a->ifa_next) {
    if (a->ifa_addr == nullptr) continue;
    if (a->ifa_addr->sa_family == AF_INET) {
      add_once(addresses, to_string(a->ifa_addr, sizeof(sockaddr_in)));
    } else if (a->ifa_addr->sa_family == AF_INET6) {
      add_once(addresses, to_string(a->ifa_addr, sizeof(sockaddr_in6)));
    }
  }
  return addresses;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::string address_towards(const std::string& address) {
  // Connecting a datagram socket only looks up the route. It sends nothing, so any port will do.
  const AddressList target = numeric_address(address, 9, SOCK_DGRAM);
  const FileDescriptor probe(socket(target->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe || connect(probe.get(), target->ai_addr, target->ai_addrlen) != 0) {
    throw ConfigError(fmt::format("this host has no route to {}: {}", address, strerror(errno)));
  }
  return address_of(probe.get(), &getsockname);
}

FileDescriptor bind_socket(const std::string& address, int port) {
  const AddressList at = numeric_address(address, port, SOCK_STREAM);
  FileDescriptor bound(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (bound) set_option(bound.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (!bound || bind(bound.get(), at->ai_addr, at->ai_addrlen) != 0) {
    throw IoError(fmt::format("cannot bind {} port {}: {}", address, port, strerror(errno)));
  }
  return bound;
}

int bound_port(const FileDescriptor& socket) {
  socklen_t size = 0;
  const sockaddr_storage name = socket_name(socket.get(), &getsockname, &size);
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&name)->sin6_port
                                          : reinterpret_cast<const sockaddr_in*>(&name)->sin_port);
}

void listen_on(const FileDescriptor& socket) {
  if (listen(socket.get(), SOMAXCONN) != 0) {
    throw IoError(fmt::format("cannot listen on {} port {}: {}",
                              address_of(socket.get(), &getsockname), bound_port(socket),
                              strerror(errno)));
  }
}

FileDescriptor accept_connection(const FileDescriptor& listener) {
  return FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

std::string peer_address(const FileDescriptor& socket) {
  return address_of(socket.get(), &getpeername);
}

FileDescriptor try_connect(const std::string& source, const std::string& address, int port) {
  FileDescriptor connection = bind_socket(source, 0);
  const AddressList target = numeric_address(address, port, SOCK_STREAM);
  if (connect(connection.get(), target->ai_addr, target->ai_addrlen) == 0) return connection;
  if (errno != EINPROGRESS) return {};
  pollfd ready{connection.get(), POLLOUT, 0};
  if (poll(&ready, 1, kConnectMilliseconds) != 1) return {};
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? std::move(connection) : FileDescriptor();
}

void detect_lost_peer(const FileDescriptor& socket) {
  set_option(socket.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, kLostPeerProbes);
  set_option(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, (kLostPeerProbes + 1) * 1000);
}

void send_at_once(const FileDescriptor& socket) {
  set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
}

}  // namespace colossal::cluster
