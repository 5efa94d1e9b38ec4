#include "colossal/tune/rewards/reward_address.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <memory>
#include <optional>

#include "colossal/base/error.h"
#include "colossal/base/file_descriptor.h"
#include "colossal/io/json.h"
#include "colossal/tune/rewards/reward_program.h"

namespace colossal::tune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostBytes = size_t{64} << 20;  // most bytes of an answer

struct Address {
  std::string host, port = "80", path = "/";
};

Address parse_address(const std::string& text) {
  const std::string rest = text.substr(std::string("http://").size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  Address address;
  address.host = rest.substr(0, slash);
  if (slash < rest.size()) address.path = rest.substr(slash);
  const size_t colon = address.host.rfind(':');
  if (colon != std::string::npos) {
    address.port = address.host.substr(colon + 1);
    address.host.resize(colon);
  }
  int port = 0;
  const char* const end = address.port.data() + address.port.size();
  const bool is_number = std::from_chars(address.port.data(), end, port).ptr == end;
  if (address.host.empty() || !is_number || port < 1 || port > 65535) {
    throw ConfigError(fmt::format(
        "tune.reward = \"{}\": no address; give one as \"http://HOST:PORT/PATH\"", text));
  }
  return address;
}

// A connection whose calls wait until its deadline at most.
class Connection {
 public:
  Connection(const Address& address, Clock::time_point deadline) : deadline_(deadline) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found) != 0) {
      throw Error(fmt::format("there is no host {}", address.host));
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, freeaddrinfo);
    for (const addrinfo* each = found; each && !socket_; each = each->ai_next) connect_to(*each);
    if (!socket_)
      throw Error(fmt::format("no server answers at {}:{}", address.host, address.port));
  }

  void send_all(const std::string& text) {
    size_t sent = 0;
    while (sent < text.size()) {
      wait_for(POLLOUT);
      const ssize_t count =
          send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN && errno != EINTR) throw Error("the connection was closed");
      if (count > 0) sent += count;
    }
  }

  std::string receive_all() {
    std::string text;
    for (;;) {
      wait_for(POLLIN);
      std::array<char, 65536> buffer;
      const ssize_t count = recv(socket_.get(), buffer.data(), buffer.size(), 0);
      if (count == 0) return text;
      if (count < 0 && errno != EAGAIN && errno != EINTR) throw Error("the connection was closed");
      if (count > 0) text.append(buffer.data(), count);
      if (text.size() > kMostBytes) throw Error("its answer is too long");
    }
  }

 private:
  void connect_to(const addrinfo& address) {
    socket_ =
        FileDescriptor(socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                              address.ai_protocol));
    if (connect(socket_.get(), address.ai_addr, address.ai_addrlen) == 0) return;
    int failure = errno;
    if (failure == EINPROGRESS) {
      wait_for(POLLOUT);
      socklen_t size = sizeof failure;
      getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
    }
    if (failure != 0) socket_.close();
  }

  void wait_for(short event) {
    for (;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      if (left <= 0) throw Error("it did not answer in time");
      pollfd waiting{socket_.get(), event, 0};
      if (poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 1000))) > 0) return;
    }
  }

  FileDescriptor socket_;
  Clock::time_point deadline_;
};

// Returns a body in chunked transfer encoding, decoded. Throws Error if the last chunk is missing.
std::string joined_chunks(const std::string& body) {
  std::string text;
  size_t at = 0;
  while (at < body.size()) {
    size_t size = 0;
    const size_t line = body.find("\r\n", at);
    if (line == std::string::npos) break;
    std::from_chars(body.data() + at, body.data() + line, size, 16);
    if (size == 0) return text;
    if (size > body.size() - line) break;
    text.append(body, line + 2, size);
    at = line + 2 + size + 2;
  }
  throw Error("its answer is incomplete");
}

// Returns the body of an answer, whose end is the end of the connection. Throws Error for any
// status but 200.
std::string body_of(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.") || end == std::string::npos) {
    throw Error("its answer is not HTTP");
  }
  std::string head = answer.substr(0, end);
  const std::string status = head.substr(0, head.find("\r\n"));
  if (status.find(" 200") == std::string::npos)
    throw Error(fmt::format("its answer has status {}", status));
  std::ranges::transform(head, head.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string body = answer.substr(end + 4);
  return head.find("transfer-encoding: chunked") == std::string::npos ? body : joined_chunks(body);
}

class RewardAddress final : public Reward {
 public:
  RewardAddress(const std::string& address, double timeout)
      : address_(parse_address(address)), timeout_(timeout) {}

  std::vector<double> score(const std::vector<ScoredText>& texts) override {
    std::string body;
    for (const ScoredText& text : texts) body += (body.empty() ? "" : ",") + describe(text);
    body = fmt::format("{{\"completions\":[{}]}}", body);
    Connection connection(address_, Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                       std::chrono::duration<double>(timeout_)));
    connection.send_all(
        fmt::format("POST {} HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/json\r\n"
                    "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
                    address_.path, address_.host, address_.port, body.size(), body));
    const auto answer = nlohmann::json::parse(body_of(connection.receive_all()), nullptr,
                                              /*allow_exceptions=*/false);
    if (!answer.is_object() || !answer.contains("rewards") || !answer["rewards"].is_array() ||
        answer["rewards"].size() != texts.size()) {
      throw Error(
          fmt::format("its answer is not {{\"rewards\": [...]}} of {} numbers", texts.size()));
    }
    std::vector<double> scores;
    for (const nlohmann::json& reward : answer["rewards"]) scores.push_back(read_reward(reward));
    return scores;
  }

 private:
  Address address_;
  double timeout_;
};

}  // namespace

std::unique_ptr<Reward> make_reward_address(const std::string& address, double timeout) {
  return std::make_unique<RewardAddress>(address, timeout);
}

}  // namespace colossal::tune
