// HTTP/1.1 on one thread: reads requests within limits, hands them to a handler, and writes what
// any thread answers.
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
  // Of all bodies above 64 KiB that are being read together; further requests are told to come
  // again.
  uint64_t all_body_bytes = uint64_t{64} << 20;
  size_t connections = 1024;
  // What a client may leave unread before it is dropped.
  size_t unread_bytes = size_t{1} << 20;
  std::chrono::milliseconds header_time{10'000};
  std::chrono::milliseconds body_time{30'000};
  std::chrono::milliseconds idle_time{60'000};
};

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // without the query
  // By lower-case name: "authorization", "content-type", "host", "origin".
  std::map<std::string, std::string> headers;
  std::string body;
  std::string peer;  // address of the client
};

using Headers = std::vector<std::pair<std::string, std::string>>;

// An answer to one request: whole by send(), or as a stream of server-sent events by write_event()
// and end_stream(). May be used from any thread, and after the client has gone: then nothing
// happens.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void send(int status, std::string_view content_type, std::string body,
                    Headers headers = {}) = 0;
  // "data: {event}\n\n". The first begins the stream, with status 200.
  virtual void write_event(std::string_view event) = 0;
  virtual void end_stream() = 0;
  // Called on the server's thread, once, if the client goes before the answer is complete, or does
  // not read it. Set by the handler before it returns.
  virtual void on_abandoned(std::function<void()> action) = 0;
};

struct ApiError;
void send_error(Reply& reply, const ApiError& error);

class HttpServer {
 public:
  using Handler = std::function<void(HttpRequest, std::shared_ptr<Reply>)>;
  // Listens at once. port 0: any free port. handler is called on the server's thread, and may throw
  // ApiError. Throws ConfigError for an address that cannot be listened on.
  HttpServer(const std::string& host, int port, const HttpLimits& limits, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string address() const;  // "127.0.0.1:8000"

  void run();   // until stop()
  void stop();  // from any thread; answers that were not written yet are lost

  // Calls the action on the server's thread whenever the descriptor, which must outlive the server,
  // can be read. To be called before run().
  void watch(int fd, std::function<void()> action);

  size_t open_requests() const;  // whose answers are not written to their end; from any thread

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace colossal::server
