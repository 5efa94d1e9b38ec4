// An HTTP/1.1 server that runs on one thread, the server's thread. It reads requests within limits,
// passes them to a handler, and writes responses. Any thread may send a response.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/server/api_error.h"

namespace colossal::server {

// Limits on what clients send and how long they take. A request that exceeds one of the first five
// limits gets the given HTTP status; the connection is then closed.
struct HttpLimits {
  uint32_t header_bytes = 16 * 1024;        // status 431
  size_t header_fields = 100;               // status 431
  size_t target_bytes = 8 * 1024;           // path and query; status 414
  uint64_t body_bytes = uint64_t{8} << 20;  // status 413
  // Limit on the total size of the bodies that are being read at the same time; status 503 with
  // Retry-After. Bodies of at most 64 KiB do not count. A body of unannounced size counts as
  // body_bytes.
  uint64_t all_body_bytes = uint64_t{64} << 20;
  size_t connections = 1024;
  // Further connections, beyond `connections`: only a GET of reserved_path is answered on them, so
  // that a monitor reaches a server whose connections are all in use. They must send their request
  // within a second. Connections beyond these are closed at once.
  size_t reserved_connections = 16;
  std::string reserved_path = "/health";
  // Maximum bytes of a stream that wait to be sent to a client. If there are more, the connection
  // is closed.
  size_t max_unsent_bytes = size_t{1} << 20;
  // A connection is closed if one of the following takes longer.
  std::chrono::milliseconds header_time{10'000};  // reading a header
  std::chrono::milliseconds body_time{30'000};    // reading a body; sending one event or response
  std::chrono::milliseconds idle_time{60'000};    // waiting for the next request
};

// A request as the handler receives it.
struct HttpRequest {
  // Such as "GET". Also "GET" for a HEAD request, to whose client only the header of the response
  // is sent.
  std::string method;
  std::string path;  // without the query and a host; as sent, i.e. percent-encoded
  // Value of each header field by its name in lower case, such as "content-type". If a field is
  // repeated, its last value. "host" is the host of an absolute-form target, if the request has
  // one.
  std::map<std::string, std::string> headers;
  std::string body;
  std::string peer;  // IP address of the client
};

// Names and values of header fields.
using Headers = std::vector<std::pair<std::string, std::string>>;

// Returns the text with its ASCII letters in lower case, as names in HTTP are compared.
std::string lower_case(std::string_view text);

// The content type of a stream of server-sent events.
inline constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";

// The response to one request. Send it whole with send(), or as a stream with begin_stream(),
// write_part() and end_stream(). Thread-safe, except on_abandoned(). Calls have no effect once the
// response is complete or the client has disconnected.
class Reply {
 public:
  explicit Reply(ErrorForm error_form = ErrorForm::openai) : error_form_(error_form) {}
  virtual ~Reply() = default;
  // Returns how the API of the request writes errors.
  ErrorForm error_form() const { return error_form_; }
  // Sends the whole response. headers: further header fields.
  virtual void send(int status, std::string_view content_type, std::string body,
                    Headers headers = {}) = 0;
  // Sends the header of a stream, with status 200. headers: further header fields.
  virtual void begin_stream(std::string_view content_type, Headers headers = {}) = 0;
  // Sends the next bytes of the stream, at least one.
  virtual void write_part(std::string_view part) = 0;
  // Completes the stream.
  virtual void end_stream() = 0;
  // Sets an action that is called once, on the server's thread, if the connection is closed before
  // the response is complete: the client has disconnected or does not read. A handler that wants
  // this must call on_abandoned() before it returns.
  virtual void on_abandoned(std::function<void()> action) = 0;

 private:
  ErrorForm error_form_;
};

// Sends JSON as a whole response, with status 200.
void send_json(Reply& reply, const nlohmann::ordered_json& json);
// Sends an error as a whole response, with the error's status and its JSON in the reply's form.
void send_error(Reply& reply, const ApiError& error);

// Owns the listening socket and the connections.
class HttpServer {
 public:
  // Answers a request through the Reply, at once or later. The request stays open until the
  // response is complete or the client disconnects.
  using Handler = std::function<void(HttpRequest, std::shared_ptr<Reply>)>;
  // Starts listening. port: 0 chooses a free port. handler: called on the server's thread. An
  // ApiError that it throws is sent to the client; any other exception is sent as status 500.
  // Throws ConfigError if the address is not available.
  HttpServer(const std::string& host, int port, const HttpLimits& limits, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Returns the address on which the server listens, such as "127.0.0.1:8000".
  std::string address() const;
  // Returns whether only programs of this machine can connect.
  bool is_loopback() const;

  // Serves on the calling thread until stop().
  void run();
  // Ends run(). Thread-safe. Responses that are not written yet are lost.
  void stop();

  // Calls `action` on the server's thread whenever the file descriptor `fd` is readable. The
  // descriptor must outlive the server. Call before run().
  void watch(int fd, std::function<void()> action);

  // Returns the number of requests that are not completely answered. Thread-safe.
  size_t open_requests() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace colossal::server
