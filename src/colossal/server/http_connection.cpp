#include "colossal/server/http_connection.h"

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

#include "colossal/base/current_exception.h"
#include "colossal/base/log.h"
#include "colossal/server/api_error.h"
#include "colossal/server/http_reply.h"

namespace colossal::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr size_t kReadAhead = 64 * 1024;
constexpr uint64_t kSmallBody = 64 * 1024;
constexpr std::chrono::milliseconds kLingerTime(1000);
// How long a reserved connection may take to send its request.
constexpr std::chrono::milliseconds kReservedTime(1000);

std::string peer_of(const asio::ip::tcp::socket& socket) {
  boost::system::error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  return error ? "?" : endpoint.address().to_string();
}

// Returns where the authority of an absolute-form target begins ("http://host/path"); npos for
// another target.
size_t authority_of(std::string_view target) {
  const std::string scheme = lower_case(target.substr(0, 8));
  if (scheme.starts_with("http://")) return 7;
  return scheme == "https://" ? 8 : std::string_view::npos;
}

std::string_view host_of(std::string_view target) {
  const size_t begin = authority_of(target);
  if (begin == std::string_view::npos) return {};
  return target.substr(begin, target.find_first_of("/?", begin) - begin);
}

std::string_view path_of(std::string_view target) {
  if (const size_t begin = authority_of(target); begin != std::string_view::npos) {
    target.remove_prefix(std::min(target.find_first_of("/?", begin), target.size()));
  }
  const std::string_view path = target.substr(0, target.find('?'));
  return path.empty() ? "/" : path;
}

ApiError too_large(const HttpLimits& limits) {
  return {413, fmt::format("the body is larger than {} bytes", limits.body_bytes)};
}

// Refuses every transfer encoding but "chunked" (RFC 9112, 6.1 and 6.3). The parser would ignore
// others: then a proxy in front of this server might see another end of the request, and so other
// requests after it.
void check_transfer_encoding(const http::header<true>& fields) {
  size_t count = 0;
  std::string encodings;
  for (const auto& field : fields) {
    if (field.name() != http::field::transfer_encoding) continue;
    encodings += (count++ > 0 ? ", " : "") + lower_case(field.value());
  }
  if (count == 0) return;
  if (fields.version() < 11) throw ApiError(400, "HTTP/1.0 has no Transfer-Encoding");
  if (fields.count(http::field::content_length) > 0) {
    throw ApiError(400, "a request has either Transfer-Encoding or Content-Length");
  }
  if (encodings == "chunked") return;
  const bool is_chunked_twice = encodings.find("chunked") != encodings.rfind("chunked");
  throw ApiError(is_chunked_twice ? 400 : 501,
                 "the only Transfer-Encoding that is supported is \"chunked\"");
}

int status_of(const boost::system::error_code& error) {
  if (error == http::error::body_limit) return 413;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  return 400;
}

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, SharedConnectionState& shared,
                               bool reserved)
    : socket_(std::move(socket)),
      shared_(shared),
      deadline_(socket_.get_executor()),
      buffer_(kReadAhead),
      peer_(peer_of(socket_)),
      reserved_(reserved) {
  ++shared_.open_connections;
  boost::system::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

HttpConnection::~HttpConnection() {
  --shared_.open_connections;
  shared_.body_bytes -= announced_bytes_;
}

// Closes the connection after `time`, unless another deadline is set or the deadline is cancelled.
void HttpConnection::set_deadline(std::chrono::milliseconds time) {
  deadline_.expires_after(time);
  deadline_.async_wait([weak = weak_from_this()](const Code& error) {
    const auto self = weak.lock();
    if (self && !error) self->close();
  });
}

void HttpConnection::wait_for_request() {
  if (buffer_.size() > 0) return read_header();
  set_deadline(reserved_ ? kReservedTime : shared_.limits.idle_time);
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const Code& error) {
                       if (!error) self->read_header();
                     });
}

void HttpConnection::read_header() {
  set_deadline(reserved_ ? kReservedTime : shared_.limits.header_time);
  parser_.emplace();
  parser_->header_limit(shared_.limits.header_bytes);
  parser_->body_limit(shared_.limits.body_bytes);
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](const Code& error, size_t) { self->take_header(error); });
}

void HttpConnection::check_header() const {
  const auto& fields = parser_->get();
  const HttpLimits& limits = shared_.limits;
  if (fields.target().size() > limits.target_bytes) throw ApiError(414, "the path is too long");
  if (static_cast<size_t>(std::distance(fields.begin(), fields.end())) > limits.header_fields) {
    throw ApiError(431, "the request has too many headers");
  }
  if (reserved_ && path_of(fields.target()) != limits.reserved_path) {
    ApiError error(503, "too many connections are open; try again later");
    error.retry_after = 1;
    throw error;
  }
  const size_t hosts = fields.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && fields.version() >= 11)) {
    throw ApiError(400, "a request must have one Host header");
  }
  check_transfer_encoding(fields);
  if (!fields[http::field::content_encoding].empty()) {
    throw ApiError(415, "a body with a Content-Encoding is not supported: send it uncompressed");
  }
  if (parser_->content_length().value_or(0) > limits.body_bytes) throw too_large(limits);
}

void HttpConnection::take_header(const Code& error) {
  ++request_;
  if (error == http::error::end_of_stream || error == asio::error::eof ||
      error == asio::error::operation_aborted || error == asio::error::connection_reset) {
    return close();
  }
  if (error) {
    return refuse({status_of(error), "this is not a valid HTTP request: " + error.message()});
  }
  is_head_ = parser_->get().method() == http::verb::head;
  try {
    check_header();
  } catch (const ApiError& refusal) {
    return refuse(refusal);
  }
  read_body();
}

void HttpConnection::read_body() {
  if (parser_->is_done()) return take_body({});
  uint64_t announced = parser_->content_length().value_or(shared_.limits.body_bytes);
  // Small bodies do not count: there is memory for one per connection, and large bodies of other
  // connections must not keep them out.
  if (announced <= kSmallBody) announced = 0;
  if (shared_.body_bytes + announced > shared_.limits.all_body_bytes) {
    ApiError error(503, "too many large requests at once; try again later");
    error.retry_after = 1;
    return refuse(error);
  }
  announced_bytes_ = announced;
  shared_.body_bytes += announced;
  set_deadline(shared_.limits.body_time);
  if (boost::beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
    to_write_.push_back("HTTP/1.1 100 Continue\r\n\r\n");
    unsent_bytes_ += to_write_.back().size();
    write_next();
  }
  http::async_read(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](const Code& error, size_t) { self->take_body(error); });
}

void HttpConnection::take_body(const Code& error) {
  shared_.body_bytes -= std::exchange(announced_bytes_, 0);
  if (error == http::error::body_limit) return refuse(too_large(shared_.limits));
  if (error == http::error::partial_message || error == asio::error::operation_aborted ||
      error == asio::error::connection_reset) {
    return close();
  }
  if (error) return refuse({400, "the body cannot be read: " + error.message()});
  dispatch();
}

void HttpConnection::dispatch() {
  deadline_.cancel();
  auto message = parser_->release();
  parser_.reset();
  supports_chunks_ = message.version() >= 11;
  keeps_alive_ = message.keep_alive() && !reserved_;
  HttpRequest request{.method = is_head_ ? "GET" : std::string(message.method_string()),
                      .path = std::string(path_of(message.target())),
                      .body = std::move(message.body()),
                      .peer = peer_};
  for (const auto& field : message) {
    request.headers[lower_case(field.name_string())] = std::string(field.value());
  }
  const std::string_view host = host_of(message.target());
  if (!host.empty()) request.headers["host"] = host;
  answering_ = true;
  answer_complete_ = false;
  ++shared_.open_requests;
  auto reply = std::make_shared<HttpReply>(shared_from_this(), request_);
  try {
    shared_.handler(std::move(request), reply);
  } catch (const ApiError& error) {
    send_error(*reply, error);
  } catch (...) {
    log::error("a request failed: {}", message_of_current_exception());
    send_error(*reply, ApiError(500, "the server could not answer; see its log"));
  }
  if (answering_ && answered_request_ != request_) watch_for_disconnect();
}

// Answers with an error and ends the connection, because it is unknown where the next request
// begins.
void HttpConnection::refuse(const ApiError& error) {
  deadline_.cancel();
  keeps_alive_ = false;
  answering_ = true;
  answer_complete_ = false;
  ++shared_.open_requests;
  HttpReply reply(shared_from_this(), request_);
  send_error(reply, error);
}

// Closes the connection if the client disconnects before it has its answer.
void HttpConnection::watch_for_disconnect() {
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this(), request = request_](const Code& error) {
                       if (error || !self->answering_ || self->request_ != request) return;
                       // A client that has sent its last request may close its side while it still
                       // reads the answer, which only has to be written.
                       if (self->answered_request_ == request) return;
                       char byte;
                       Code peeked;
                       self->socket_.non_blocking(true, peeked);
                       const size_t count = self->socket_.receive(
                           asio::buffer(&byte, 1), asio::socket_base::message_peek, peeked);
                       // Bytes that arrive early belong to the next request: they stay unread, and
                       // the watch ends.
                       if (count > 0 || peeked == asio::error::would_block) return;
                       self->close();
                     });
}

void HttpConnection::write(int64_t answer, std::string bytes, bool last) {
  const size_t unread = unsent_bytes_ += bytes.size();
  if (last) answered_request_ = answer;
  asio::post(socket_.get_executor(),
             [self = shared_from_this(), answer, unread, bytes = std::move(bytes), last]() mutable {
               if (!self->answering_ || answer != self->request_ || self->answer_complete_) {
                 self->unsent_bytes_ -= bytes.size();
                 return;
               }
               self->answer_complete_ = last;
               // A complete answer may have any size. A client that does not read its stream is
               // dropped.
               if (!last && unread > self->shared_.limits.max_unsent_bytes) {
                 log::warn("a client does not read its answer: disconnected");
                 return self->close();
               }
               self->to_write_.push_back(std::move(bytes));
               self->write_next();
             });
}

void HttpConnection::write_next() {
  if (writing_) return;
  if (to_write_.empty()) {
    if (answering_ && answer_complete_) finish_request();
    return;
  }
  writing_ = true;
  if (answering_) set_deadline(shared_.limits.body_time);
  asio::async_write(socket_, asio::buffer(to_write_.front()),
                    [self = shared_from_this()](const Code& error, size_t) {
                      self->writing_ = false;
                      self->unsent_bytes_ -= self->to_write_.front().size();
                      self->to_write_.pop_front();
                      if (error) return self->close();
                      if (self->answering_) self->deadline_.cancel();
                      self->write_next();
                    });
}

void HttpConnection::finish_request() {
  answering_ = false;
  abandoned_ = nullptr;
  --shared_.open_requests;
  if (!keeps_alive_) return shut_down_gracefully();
  // Cancels watch_for_disconnect().
  Code ignored;
  socket_.cancel(ignored);
  wait_for_request();
}

// Closes the connection after the client's input has ended. If it were closed at once, a client
// that still sends might not see the answer.
void HttpConnection::shut_down_gracefully() {
  Code ignored;
  socket_.cancel(ignored);
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  set_deadline(kLingerTime);
  discard_input();
}

void HttpConnection::discard_input() {
  buffer_.clear();
  socket_.async_read_some(buffer_.prepare(kReadAhead),
                          [self = shared_from_this()](const Code& error, size_t) {
                            error ? self->close() : self->discard_input();
                          });
}

void HttpConnection::close() {
  if (std::exchange(answering_, false)) --shared_.open_requests;
  deadline_.cancel();
  Code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  if (auto action = std::exchange(abandoned_, nullptr)) action();
}

}  // namespace colossal::server
