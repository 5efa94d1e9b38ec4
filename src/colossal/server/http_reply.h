// The Reply that an HttpConnection passes to the handler: formats the response as HTTP and writes
// it to the connection.
#pragma once

#include <memory>

#include "colossal/server/http_connection.h"

namespace colossal::server {

// The response to one request. The overridden functions are described at Reply (http_server.h): a
// response is one send(), or begin_stream(), any number of write_part() and then end_stream().
// Shares ownership of the connection.
class HttpReply : public Reply {
 public:
  // request: number of the request in the connection, from 1.
  HttpReply(std::shared_ptr<HttpConnection> connection, int64_t request)
      : connection_(std::move(connection)), request_(request) {}

  void send(int status, std::string_view content_type, std::string body, Headers headers) override;
  void begin_stream(std::string_view content_type, Headers headers) override;
  void write_part(std::string_view part) override;
  void end_stream() override;
  void on_abandoned(std::function<void()> action) override {
    connection_->set_abandoned(std::move(action));
  }

 private:
  // Returns `bytes` as a chunk of the chunked transfer encoding if the client supports it, else
  // unchanged.
  std::string chunk(std::string_view bytes) const;

  std::shared_ptr<HttpConnection> connection_;
  int64_t request_;
};

}  // namespace colossal::server
