#include "colossal/server/http_reply.h"

#include <boost/beast/http/status.hpp>

#include "colossal/server/api_error.h"
#include "colossal/server/json_body.h"

namespace colossal::server {
namespace {

std::string head(int status, std::string_view content_type, const Headers& headers) {
  const auto reason =
      boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
  std::string text = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n", status,
                                 std::string_view(reason.data(), reason.size()), content_type);
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  return text;
}

}  // namespace

void HttpReply::send(int status, std::string_view content_type, std::string body, Headers headers) {
  headers.emplace_back("Content-Length", std::to_string(body.size()));
  headers.emplace_back("Connection", connection_->keeps_alive() ? "keep-alive" : "close");
  // The header of a response to HEAD is that of GET.
  if (connection_->is_head()) body.clear();
  connection_->write(request_, head(status, content_type, headers) + "\r\n" + body, true);
}

void HttpReply::begin_stream(std::string_view content_type, Headers headers) {
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");
  const bool chunked = connection_->supports_chunks();
  if (chunked) headers.emplace_back("Transfer-Encoding", "chunked");
  headers.emplace_back("Connection",
                       chunked && connection_->keeps_alive() ? "keep-alive" : "close");
  connection_->write(request_, head(200, content_type, headers) + "\r\n", false);
}

std::string HttpReply::chunk(std::string_view bytes) const {
  return connection_->supports_chunks() ? fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes)
                                        : std::string(bytes);
}

void HttpReply::write_part(std::string_view part) {
  connection_->write(request_, chunk(part), false);
}

void HttpReply::end_stream() {
  connection_->write(request_, connection_->supports_chunks() ? "0\r\n\r\n" : "", true);
}

void send_json(Reply& reply, const nlohmann::ordered_json& json) {
  reply.send(200, "application/json", to_text(json));
}

void send_error(Reply& reply, const ApiError& error) {
  Headers headers;
  if (error.retry_after > 0) headers.emplace_back("Retry-After", std::to_string(error.retry_after));
  if (!error.allowed_method.empty()) headers.emplace_back("Allow", error.allowed_method);
  if (error.status == 401) headers.emplace_back("WWW-Authenticate", "Bearer");
  reply.send(error.status, "application/json", error.json(reply.error_form()), std::move(headers));
}

}  // namespace colossal::server
