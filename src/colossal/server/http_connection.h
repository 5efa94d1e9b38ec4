// A client's connection, which handles one request at a time.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <deque>
#include <memory>
#include <optional>

#include "colossal/server/http_server.h"

namespace colossal::server {

// State shared by the connections of a server. Used on the server's thread only; the counters are
// atomic, because the destructor of a connection, which changes them, may run on another thread, if
// an answer holds the connection last.
struct SharedConnectionState {
  HttpLimits limits;
  HttpServer::Handler handler;
  std::atomic<size_t> open_connections = 0;
  std::atomic<size_t> open_requests = 0;
  // sum of the announced sizes of the bodies above 64 KiB that are being read
  std::atomic<uint64_t> body_bytes = 0;
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(boost::asio::ip::tcp::socket socket, SharedConnectionState& host);
  ~HttpConnection();

  void start() { wait_for_request(); }

  // Thread-safe. Writes bytes of the response to request number `answer`; drops them if that
  // request is not the current one. last: these bytes complete the response.
  void write(int64_t answer, std::string bytes, bool last);
  // Call on the server's thread. action: see Reply::on_abandoned().
  void set_abandoned(std::function<void()> action) { abandoned_ = std::move(action); }
  // Whether the client supports chunked transfer encoding (HTTP/1.1).
  bool supports_chunks() const { return speaks_chunks_; }
  // Whether the connection stays open after the current response.
  bool keeps_alive() const { return keeps_alive_; }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Code = boost::system::error_code;

  void set_deadline(std::chrono::milliseconds time);
  void wait_for_request();
  void read_header();
  void take_header(const Code& error);
  int refusal_of_header() const;
  void read_body();
  void take_body(const Code& error);
  void dispatch();
  void refuse(int status, const std::string& message);
  void watch_for_end();
  void write_next();
  void finish_request();
  void end_politely();
  void discard_input();
  void close();

  boost::asio::ip::tcp::socket socket_;
  SharedConnectionState& host_;
  boost::asio::steady_timer deadline_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  uint64_t announced_bytes_ = 0;
  std::string peer_;

  int64_t request_ = 0;  // number of the current request, from 1
  bool answering_ = false, answer_complete_ = false;
  std::atomic<bool> speaks_chunks_ = true, keeps_alive_ = true;
  std::deque<std::string> to_write_;
  bool writing_ = false;
  std::atomic<size_t> unread_bytes_ = 0;
  std::function<void()> abandoned_;
};

}  // namespace colossal::server
