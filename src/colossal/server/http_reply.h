// Formats the response to one request of a connection as HTTP, and writes it to the connection.
#pragma once

#include <memory>
#include <mutex>

#include "colossal/server/http_connection.h"

namespace colossal::server {

class HttpReply : public Reply {
 public:
  HttpReply(std::shared_ptr<HttpConnection> connection, int64_t request)
      : connection_(std::move(connection)), request_(request) {}

  void send(int status, std::string_view content_type, std::string body, Headers headers) override;
  void write_event(std::string_view event) override;
  void end_stream() override;
  void on_abandoned(std::function<void()> action) override {
    connection_->set_abandoned(std::move(action));
  }

 private:
  std::string begin_stream();
  std::string chunk(std::string_view bytes) const;

  std::shared_ptr<HttpConnection> connection_;
  int64_t request_;
  std::mutex mutex_;
  bool streaming_ = false;
};

}  // namespace colossal::server
