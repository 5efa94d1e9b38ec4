// One client's connection to an HttpServer. It reads one request at a time, passes it to the
// handler, and writes the response.
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

// What the connections of a server share. Used on the server's thread. The counters are atomic
// because the destructor of a connection changes them: if a reply is the last owner of the
// connection, the destructor may run on another thread.
struct SharedConnectionState {
  HttpLimits limits;
  HttpServer::Handler handler;
  std::atomic<size_t> open_connections = 0;
  std::atomic<size_t> open_requests = 0;  // requests whose response is not completely sent
  // Sum of the announced sizes, in bytes, of the bodies above 64 KiB that are being read. A body of
  // unannounced size (chunked transfer encoding) counts as HttpLimits::body_bytes.
  std::atomic<uint64_t> body_bytes = 0;
};

// Reads the requests of one client and writes their responses. Lives as long as the client is
// connected or a reply owns the connection. Must be owned by a std::shared_ptr. Unless noted
// otherwise, functions are called on the server's thread.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // shared: of the server of this connection; must outlive the connection. reserved: whether this
  // is one of HttpLimits::reserved_connections.
  HttpConnection(boost::asio::ip::tcp::socket socket, SharedConnectionState& shared,
                 bool reserved = false);
  ~HttpConnection();

  // Starts reading requests.
  void start() { wait_for_request(); }

  // Thread-safe. Writes the next bytes of a response in HTTP format, header included. answer:
  // number of the request on this connection, from 1. Drops the bytes if that request is not the
  // current one, or if its response is complete. last: true if these bytes complete the response;
  // if false, and too many bytes wait to be sent, closes the connection
  // (HttpLimits::max_unsent_bytes).
  void write(int64_t answer, std::string bytes, bool last);
  // Sets the action for the current request; call it only in the request's handler. The action is
  // called once if the connection is closed before the whole response is sent, else never.
  void set_abandoned(std::function<void()> action) { abandoned_ = std::move(action); }
  // Thread-safe. Returns true if the client supports chunked transfer encoding (HTTP/1.1).
  bool supports_chunks() const { return supports_chunks_; }
  // Thread-safe. Returns true if the connection stays open after the current response.
  bool keeps_alive() const { return keeps_alive_; }
  // Thread-safe. Returns true if the current request is HEAD: no body may be sent.
  bool is_head() const { return is_head_; }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Code = boost::system::error_code;

  // Closes the connection after this time, unless the deadline is changed or cancelled before.
  void set_deadline(std::chrono::milliseconds time);
  void wait_for_request();
  void read_header();
  void take_header(const Code& error);
  // Throws ApiError if the header is refused.
  void check_header() const;
  void read_body();
  void take_body(const Code& error);
  // Passes the request to the handler.
  void dispatch();
  // Sends an error for a request that cannot be read; the connection is then closed.
  void refuse(const ApiError& error);
  // Closes the connection if the client disconnects while its response is computed.
  void watch_for_disconnect();
  // Writes the next bytes of to_write_, unless a write is in progress.
  void write_next();
  void finish_request();
  // Closes the connection after the client has had time to read the response.
  void shut_down_gracefully();
  void discard_input();
  void close();

  boost::asio::ip::tcp::socket socket_;
  SharedConnectionState& shared_;
  boost::asio::steady_timer deadline_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  uint64_t announced_bytes_ = 0;  // this connection's part of body_bytes
  std::string peer_;              // IP address of the client

  int64_t request_ = 0;  // number of the current request, from 1
  // answering_: the current request is not completely answered. answer_complete_: all bytes of the
  // response are in to_write_.
  bool answering_ = false, answer_complete_ = false;
  // The request whose whole response has been passed to write(), perhaps not yet to to_write_.
  std::atomic<int64_t> answered_request_ = 0;
  std::atomic<bool> supports_chunks_ = true, keeps_alive_ = true, is_head_ = false;
  const bool reserved_;
  // Bytes to write, in order; the first element is being written if writing_.
  std::deque<std::string> to_write_;
  bool writing_ = false;
  // Bytes passed to write() that are not written yet.
  std::atomic<size_t> unsent_bytes_ = 0;
  std::function<void()> abandoned_;  // see set_abandoned(); may be empty
};

}  // namespace colossal::server
