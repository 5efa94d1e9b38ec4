// An HTTP/1.1 server on one thread, the server's thread: reads requests within limits, passes them
// to a handler, and writes responses. Any thread may send a response.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace colossal::server {

struct HttpLimits {
  uint32_t header_bytes = 16 * 1024;
  size_t header_fields = 100;
  size_t target_bytes = 8 * 1024;
  uint64_t body_bytes = uint64_t{8} << 20;
  // Limit on the sum of all bodies above 64 KiB that are being read; a request whose body would
  // exceed it gets status 503 with Retry-After.
  uint64_t all_body_bytes = uint64_t{64} << 20;
  size_t connections = 1024;  // further connections are closed at once
  // Most bytes of a stream that may wait to be sent to a client; with more, the connection is
  // closed.
  size_t unread_bytes = size_t{1} << 20;
  // Time after which a connection is closed: while it reads a header; while it reads a body or
  // sends bytes; while it waits for a request.
  std::chrono::milliseconds header_time{10'000};
  std::chrono::milliseconds body_time{30'000};
  std::chrono::milliseconds idle_time{60'000};
};

struct HttpRequest {
  std::string method;  // e.g. "GET"
  std::string path;    // without the query
  // Header fields. Key: lower-case name, e.g. "authorization", "content-type".
  std::map<std::string, std::string> headers;
  std::string body;
  std::string peer;  // address of the client
};

using Headers = std::vector<std::pair<std::string, std::string>>;

// The response to one request, sent whole by send(), or as a stream of server-sent events by
// write_event() and end_stream(). Thread-safe, except on_abandoned(). Sending has no effect after
// the client has disconnected.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void send(int status, std::string_view content_type, std::string body,
                    Headers headers = {}) = 0;
  // Sends "data: {event}\n\n". The first event also sends the header, with status 200.
  virtual void write_event(std::string_view event) = 0;
  virtual void end_stream() = 0;
  // Sets an action that is called once, on the server's thread, if the connection is closed before
  // the response is complete: the client has disconnected or does not read. The handler must set it
  // before it returns.
  virtual void on_abandoned(std::function<void()> action) = 0;
};

struct ApiError;
void send_error(Reply& reply, const ApiError& error);

class HttpServer {
 public:
  using Handler = std::function<void(HttpRequest, std::shared_ptr<Reply>)>;
  // Starts listening. port: 0 chooses a free port. handler: called on the server's thread; an
  // ApiError that it throws is sent to the client, any other exception as status 500. Throws
  // ConfigError if the address is not available.
  HttpServer(const std::string& host, int port, const HttpLimits& limits, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string address() const;  // "127.0.0.1:8000"

  void run();   // serves on this thread until stop()
  void stop();  // thread-safe; responses not written yet are lost

  // Calls the action on the server's thread whenever the file descriptor is readable. The
  // descriptor must outlive the server. Call before run().
  void watch(int fd, std::function<void()> action);

  size_t open_requests() const;  // requests not completely answered; thread-safe

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace colossal::server
