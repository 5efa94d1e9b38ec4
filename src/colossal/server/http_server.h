// An HTTP/1.1 server on one thread: reads requests within limits, passes them to a handler, and
// writes responses, which any thread may send.
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
  // Limit on the sum of all bodies above 64 KiB that are being read; further requests get status
  // 503 with Retry-After.
  uint64_t all_body_bytes = uint64_t{64} << 20;
  size_t connections = 1024;
  // Most bytes of a stream that wait to be sent to a client; beyond, the connection is closed.
  size_t unread_bytes = size_t{1} << 20;
  std::chrono::milliseconds header_time{10'000};
  std::chrono::milliseconds body_time{30'000};
  std::chrono::milliseconds idle_time{60'000};
};

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // without the query
  // Key: lower-case name, e.g. "authorization", "content-type".
  std::map<std::string, std::string> headers;
  std::string body;
  std::string peer;  // address of the client
};

using Headers = std::vector<std::pair<std::string, std::string>>;

// The response to one request: send() sends a whole response; write_event() and end_stream() send a
// stream of server-sent events. Thread-safe. Has no effect after the client has disconnected.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void send(int status, std::string_view content_type, std::string body,
                    Headers headers = {}) = 0;
  // Sends "data: {event}\n\n". The first event begins the stream, with status 200.
  virtual void write_event(std::string_view event) = 0;
  virtual void end_stream() = 0;
  // Sets an action that is called once, on the server's thread, if the client disconnects before
  // the response is complete or does not read it. The handler must set it before it returns.
  virtual void on_abandoned(std::function<void()> action) = 0;
};

struct ApiError;
void send_error(Reply& reply, const ApiError& error);

class HttpServer {
 public:
  using Handler = std::function<void(HttpRequest, std::shared_ptr<Reply>)>;
  // Starts listening. port: 0 chooses a free port. handler: called on the server's thread; may
  // throw ApiError. Throws ConfigError if the address is not available.
  HttpServer(const std::string& host, int port, const HttpLimits& limits, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string address() const;  // "127.0.0.1:8000"

  void run();   // blocks until stop()
  void stop();  // thread-safe; responses not written yet are lost

  // Calls the action on the server's thread whenever the file descriptor is readable. The
  // descriptor must outlive the server. Call before run().
  void watch(int fd, std::function<void()> action);

  size_t open_requests() const;  // requests whose responses are not completely written; thread-safe

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace colossal::server
