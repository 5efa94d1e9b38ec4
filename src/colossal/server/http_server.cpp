#include "colossal/server/http_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "colossal/base/current_exception.h"
#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/process_limits.h"
#include "colossal/server/http_connection.h"

namespace colossal::server {
namespace {

namespace asio = boost::asio;
using Code = boost::system::error_code;

asio::ip::tcp::endpoint find_endpoint(asio::io_context& io, const std::string& host, int port) {
  Code error;
  asio::ip::tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, std::to_string(port), error);
  if (error || found.empty()) {
    throw ConfigError(fmt::format("--host={}: no such address: {}", host, error.message()));
  }
  return found.begin()->endpoint();
}

// Raises the process's limit of open files, which is often as low as 1,024.
void allow_connections(const HttpLimits& limits) {
  constexpr int64_t kOtherFiles = 256;
  const size_t connections = limits.connections + limits.reserved_connections;
  try {
    machine::require_open_files(static_cast<int64_t>(connections) + kOtherFiles,
                                fmt::format("{} connections", connections));
  } catch (const ConfigError& error) {
    log::warn("{}", error.what());
  }
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return lower;
}

struct HttpServer::Parts {
  Parts(const std::string& host, int port, const HttpLimits& limits, Handler handler)
      : connections{.limits = limits, .handler = std::move(handler)}, acceptor(io) {
    allow_connections(connections.limits);
    const auto endpoint = find_endpoint(io, host, port);
    Code error;
    acceptor.open(endpoint.protocol());
    acceptor.set_option(asio::socket_base::reuse_address(true));
    acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      throw ConfigError(fmt::format("cannot listen on {}:{}: {}; --port=0 takes any free port",
                                    host, port, error.message()));
    }
    accept();
  }

  void accept() {
    acceptor.async_accept([this](const Code& error, asio::ip::tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) return accept_later();
      // Connections above the limits are closed at once, without an answer.
      const size_t open = connections.open_connections;
      const HttpLimits& limits = connections.limits;
      if (open < limits.connections + limits.reserved_connections) {
        std::make_shared<HttpConnection>(std::move(socket), connections, open >= limits.connections)
            ->start();
      }
      accept();
    });
  }

  // Tries again later, for example if the process has no file descriptors left.
  void accept_later() {
    auto timer = std::make_shared<asio::steady_timer>(io, std::chrono::milliseconds(100));
    timer->async_wait([this, timer](const Code& error) {
      if (!error) accept();
    });
  }

  void watch(const std::shared_ptr<asio::posix::stream_descriptor>& descriptor,
             std::function<void()> action) {
    descriptor->async_wait(asio::posix::stream_descriptor::wait_read,
                           [this, descriptor, action = std::move(action)](const Code& error) {
                             if (error) return;
                             action();
                             watch(descriptor, action);
                           });
  }

  SharedConnectionState connections;  // declared before io, which may own connections
  asio::io_context io{1};
  asio::ip::tcp::acceptor acceptor;
  std::vector<std::shared_ptr<asio::posix::stream_descriptor>> watched;
};

HttpServer::HttpServer(const std::string& host, int port, const HttpLimits& limits, Handler handler)
    : parts_(std::make_unique<Parts>(host, port, limits, std::move(handler))) {}

HttpServer::~HttpServer() {
  for (const auto& descriptor : parts_->watched) descriptor->release();
}

std::string HttpServer::address() const {
  const auto endpoint = parts_->acceptor.local_endpoint();
  const std::string host = endpoint.address().to_string();
  return fmt::format("{}:{}", endpoint.address().is_v6() ? "[" + host + "]" : host,
                     endpoint.port());
}

bool HttpServer::is_loopback() const {
  return parts_->acceptor.local_endpoint().address().is_loopback();
}

void HttpServer::run() {
  const auto keep_running = asio::make_work_guard(parts_->io);
  // After an exception, which ends one action, the other actions go on.
  while (!parts_->io.stopped()) {
    try {
      parts_->io.run();
    } catch (...) {
      log::error("the HTTP server: {}", message_of_current_exception());
    }
  }
}

void HttpServer::stop() {
  parts_->io.stop();
}

void HttpServer::watch(int fd, std::function<void()> action) {
  auto descriptor = std::make_shared<asio::posix::stream_descriptor>(parts_->io, fd);
  parts_->watched.push_back(descriptor);
  parts_->watch(descriptor, std::move(action));
}

size_t HttpServer::open_requests() const {
  return parts_->connections.open_requests;
}

}  // namespace colossal::server
