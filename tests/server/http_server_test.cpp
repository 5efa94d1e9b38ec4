// Clients that send too much, too slowly, or do not read.
#include "colossal/server/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "colossal/server/api_error.h"

namespace colossal::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A connection to the server that sends and receives bytes.
class Client {
 public:
  explicit Client(const std::string& address) {
    sockaddr_in to{
        .sin_family = AF_INET,
        .sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.find(':') + 1)))),
        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  ~Client() { close(fd_); }

  void send(const std::string& bytes) {
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Returns all bytes up to the end of the connection.
  std::string receive_all() {
    std::string received;
    char buffer[4096];
    for (ssize_t count; (count = recv(fd_, buffer, sizeof buffer, 0)) > 0;) {
      received.append(buffer, static_cast<size_t>(count));
    }
    return received;
  }

 private:
  int fd_;
};

std::string post(size_t announced, const std::string& body, const char* more = "") {
  return fmt::format("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n{}\r\n{}", announced,
                     more, body);
}

class HttpServerTest : public testing::Test {
 protected:
  void start(const HttpLimits& limits, HttpServer::Handler handler) {
    server_ = std::make_unique<HttpServer>("127.0.0.1", 0, limits, std::move(handler));
    thread_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    server_->stop();
    thread_.join();
  }

  // Sends bytes and returns the answer.
  std::string ask(const std::string& bytes) {
    Client client(server_->address());
    client.send(bytes);
    return client.receive_all();
  }

  static void echo(HttpRequest request, const std::shared_ptr<Reply>& reply) {
    reply->send(200, "text/plain", request.method + request.path + request.body);
  }

  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

TEST_F(HttpServerTest, AnswersOneRequestAfterTheOther) {
  start({}, echo);
  const std::string answers =
      ask(post(2, "ab") + "GET /x?y=1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answers, HasSubstr("\r\n\r\nPOST/ab"));
  EXPECT_THAT(answers, HasSubstr("\r\n\r\nGET/x"));
}

TEST_F(HttpServerTest, StreamsInChunksOrToTheEndOfTheConnection) {
  start({}, [](HttpRequest, const std::shared_ptr<Reply>& reply) {
    reply->begin_stream(kEventStream);
    reply->write_part("one");
    reply->write_part("two");
    reply->end_stream();
  });
  EXPECT_THAT(ask(post(0, "", "Connection: close\r\n")),
              HasSubstr("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
  EXPECT_THAT(ask("GET / HTTP/1.0\r\n\r\n"), HasSubstr("\r\n\r\nonetwo"));
}

TEST_F(HttpServerTest, WhatAHandlerRefusesIsAnAnswer) {
  start({}, [](HttpRequest, const std::shared_ptr<Reply>&) { throw ApiError(400, "no", "field"); });
  const std::string answer = ask(post(0, "", "Connection: close\r\n"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_THAT(answer, HasSubstr(R"({"error":{"message":"no","type":"invalid_request_error",)"
                                R"("param":"field","code":400}})"));
}

TEST_F(HttpServerTest, SlowSendersAreCutOff) {
  start({.header_time = std::chrono::milliseconds(30),
         .body_time = std::chrono::milliseconds(30),
         .idle_time = std::chrono::milliseconds(30)},
        echo);
  EXPECT_EQ(ask(""), "");
  EXPECT_EQ(ask("POST / HTTP/1.1\r\nHo"), "");
  EXPECT_EQ(ask(post(100, "abc")), "");
}

TEST_F(HttpServerTest, BodiesAreLimitedAloneAndTogether) {
  start({.body_bytes = 100'000, .all_body_bytes = 150'000}, echo);
  EXPECT_THAT(ask(post(100'001, "")), StartsWith("HTTP/1.1 413 "));
  Client first(server_->address());
  first.send(post(100'000, "abc", "Expect: 100-continue\r\n"));
  // While the body of the first request is awaited, there is no room for a second one of its size.
  std::string answer;
  for (int i = 0; i < 200 && !answer.starts_with("HTTP/1.1 503"); ++i) {
    answer = ask(post(100'000, std::string(100'000, 'x'), "Connection: close\r\n"));
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(answer, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_THAT(ask(post(1, "x", "Connection: close\r\n")), StartsWith("HTTP/1.1 200 "));
}

// Of connections above the limit, a few are kept for /health; the others are closed.
TEST_F(HttpServerTest, TooManyConnectionsAreClosedButForHealth) {
  start({.connections = 2, .reserved_connections = 1}, echo);
  Client first(server_->address()), second(server_->address());
  first.send("GET");
  second.send("GET");
  EXPECT_THAT(ask("GET /x HTTP/1.1\r\nHost: h\r\n\r\n"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(ask("GET /health HTTP/1.1\r\nHost: h\r\n\r\n"), HasSubstr("GET/health"));
  Client third(server_->address());
  third.send("GET");
  EXPECT_EQ(Client(server_->address()).receive_all(), "");
  EXPECT_EQ(third.receive_all(), "");  // after a second
}

TEST_F(HttpServerTest, TransferEncodingsAreChunkedAloneOrRefused) {
  start({}, echo);
  const auto answer_to = [&](const std::string& fields, const char* version = "1.1") {
    return ask(
        fmt::format("POST / HTTP/{}\r\nHost: h\r\n{}\r\n2\r\nab\r\n0\r\n\r\n"
                    "GET /smuggled HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                    version, fields));
  };
  for (const char* fields : {"Transfer-Encoding: chunked\r\n", "transfer-encoding: Chunked\r\n"}) {
    EXPECT_THAT(answer_to(fields), HasSubstr("POST/ab")) << fields;
  }
  for (const auto& [fields, status] : std::vector<std::pair<std::string, std::string>>{
           {"Transfer-Encoding: gzip\r\n", "501"},
           {"Transfer-Encoding: identity\r\n", "501"},
           {"Transfer-Encoding: xchunked\r\n", "501"},
           {"Transfer-Encoding: chunked, gzip\r\n", "501"},
           {"Transfer-Encoding: gzip, chunked\r\n", "501"},
           {"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", "501"},
           {"Transfer-Encoding: chunked, chunked\r\n", "400"},
           {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "400"},
           {"Transfer-Encoding: identity\r\nContent-Length: 2\r\n", "400"},
           {"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n", "400"}}) {
    const std::string answer = answer_to(fields);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + status)) << fields;
    EXPECT_THAT(answer, HasSubstr("Connection: close")) << fields;
    EXPECT_THAT(answer, testing::Not(HasSubstr("smuggled"))) << fields;
  }
  EXPECT_THAT(answer_to("Transfer-Encoding: chunked\r\n", "1.0"), StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpServerTest, AnswersToHeadHaveNoBody) {
  start({}, echo);
  const std::string head = "HEAD /x HTTP/1.1\r\nHost: h\r\n";
  const std::string answers =
      ask(head + "\r\nGET /y HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answers, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(answers, testing::Not(HasSubstr("GET/x")));
  EXPECT_THAT(answers, HasSubstr("\r\n\r\nGET/y"));
  for (const char* bad : {"Transfer-Encoding: gzip\r\n", "Content-Encoding: gzip\r\n"}) {
    EXPECT_THAT(ask(head + bad + "\r\n"), testing::EndsWith("\r\n\r\n"));
  }
}

TEST_F(HttpServerTest, AnAbsoluteTargetHasTheHost) {
  start({}, [](const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
    reply->send(200, "text/plain", request.headers.at("host") + " " + request.path);
  });
  for (const auto& [target, answer] :
       std::vector<std::pair<std::string, std::string>>{{"http://other:8/a/b?c", "other:8 /a/b"},
                                                        {"HTTPS://other?c", "other /"},
                                                        {"/http://x", "h /http://x"}}) {
    EXPECT_THAT(ask("GET " + target + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
                testing::EndsWith("\r\n\r\n" + answer));
  }
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpServerTest, AReaderThatDoesNotReadIsDropped) {
  std::promise<void> abandoned;
  std::shared_ptr<Reply> kept;
  start({.max_unsent_bytes = 1 << 16}, [&](HttpRequest, const std::shared_ptr<Reply>& reply) {
    reply->on_abandoned([&] { abandoned.set_value(); });
    kept = reply;
    reply->begin_stream(kEventStream);
    for (int i = 0; i < 1000; ++i) reply->write_part(std::string(1 << 14, 'x'));
  });
  Client client(server_->address());
  client.send(post(0, ""));
  EXPECT_EQ(abandoned.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  kept->write_part("nobody hears this");
  kept.reset();
}

TEST_F(HttpServerTest, AClientThatGoesIsNoticedBeforeItIsAnswered) {
  std::promise<void> abandoned;
  std::shared_ptr<Reply> kept;
  start({}, [&](HttpRequest, const std::shared_ptr<Reply>& reply) {
    reply->on_abandoned([&] { abandoned.set_value(); });
    kept = reply;
  });
  { Client(server_->address()).send(post(0, "")); }
  EXPECT_EQ(abandoned.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  kept.reset();
}

}  // namespace
}  // namespace colossal::server
