#include "colossal/server/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colossal::server {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Pair;

// Returns the status with which check() refuses; 200 if it does not.
template <class Check>
int status_of(const Check& check) {
  try {
    check();
  } catch (const ApiError& error) {
    return error.status;
  }
  return 200;
}

HttpRequest with(std::map<std::string, std::string> headers, std::string method = "GET") {
  return {.method = std::move(method), .headers = std::move(headers)};
}

TEST(Access, OnLoopbackOnlyItsNamesAreTheHost) {
  Access access({.allowed_hosts = {"chat.example"}});
  access.set_address("127.0.0.1", /*is_loopback=*/true);
  for (const char* host : {"localhost", "LocalHost:80", "127.0.0.1", "127.0.0.1:8000", "[::1]",
                           "[::1]:8000", "chat.example", "Chat.Example:1"}) {
    EXPECT_EQ(status_of([&] { access.check_host(with({{"host", host}})); }), 200) << host;
  }
  for (const char* host :
       {"evil.example", "evil.example:8000", "", "localhost.evil.example", "127.0.0.1.evil.example",
        "[::2]", "::1", "xlocalhost", "localhost:80@evil.example", "localhost:80:80",
        "127.0.0.1:evil.example"}) {
    EXPECT_EQ(status_of([&] { access.check_host(with({{"host", host}})); }), 403) << host;
  }
  EXPECT_EQ(status_of([&] { access.check_host(with({})); }), 403);
}

TEST(Access, OnOtherAddressesTheHostMattersIfNamesAreGiven) {
  const HttpRequest request = with({{"host", "any.example"}});
  Access open({}), named({.allowed_hosts = {"chat.example"}});
  open.set_address("0.0.0.0", /*is_loopback=*/false);
  named.set_address("0.0.0.0", /*is_loopback=*/false);
  EXPECT_EQ(status_of([&] { open.check_host(request); }), 200);
  EXPECT_EQ(status_of([&] { named.check_host(request); }), 403);
}

TEST(Access, OriginsAreTheServersOrAllowed) {
  const Access access({.allowed_origins = {"https://chat.example"}});
  const auto request = [](const char* origin) {
    return with({{"host", "localhost:8000"}, {"origin", origin}});
  };
  EXPECT_THAT(access.check_origin(with({{"host", "localhost:8000"}})), IsEmpty());
  EXPECT_THAT(access.check_origin(request("http://localhost:8000")), IsEmpty());
  EXPECT_THAT(access.check_origin(request("https://chat.example")),
              Contains(Pair("Access-Control-Allow-Origin", "https://chat.example")));
  for (const char* origin : {"http://localhost:3000", "http://evil.example", "null",
                             "http://chat.example", "https://chat.example.evil.example"}) {
    EXPECT_EQ(status_of([&] { access.check_origin(request(origin)); }), 403) << origin;
  }
  const Access all({.allowed_origins = {"*"}});
  EXPECT_THAT(all.check_origin(request("http://x")),
              Contains(Pair("Access-Control-Allow-Origin", "http://x")));
}

TEST(Access, PreflightsOfAllowedOriginsAreAnswered) {
  const Access access({.allowed_origins = {"https://chat.example"}});
  const HttpRequest request = with({{"host", "localhost"},
                                    {"origin", "https://chat.example"},
                                    {"access-control-request-method", "POST"},
                                    {"access-control-request-headers", "authorization"}},
                                   "OPTIONS");
  const auto headers = access.answer_preflight(request, access.check_origin(request));
  ASSERT_TRUE(headers);
  EXPECT_THAT(*headers, Contains(Pair("Access-Control-Allow-Headers", "authorization")));
  EXPECT_THAT(*headers, Contains(Pair("Access-Control-Allow-Origin", "https://chat.example")));
  EXPECT_FALSE(access.answer_preflight(with({}, "OPTIONS"), {}));
  EXPECT_FALSE(access.answer_preflight(with({{"access-control-request-method", "POST"}}), {}));
}

TEST(Access, BodiesAreJson) {
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8"}) {
    const HttpRequest request = with({{"content-type", type}}, "POST");
    EXPECT_EQ(status_of([&] { Access::check_content_type(request); }), 200) << type;
  }
  for (const char* type : {"", "text/plain", "application/jsonp", "text/plain; application/json"}) {
    const HttpRequest request = with({{"content-type", type}}, "POST");
    EXPECT_EQ(status_of([&] { Access::check_content_type(request); }), 415) << type;
  }
  EXPECT_EQ(status_of([] { Access::check_content_type(with({})); }), 200);
}

TEST(Access, KeysOfClientsAndOfTheAdministrator) {
  const Access none({}), one({.key = "key"}), two({.key = "key", .admin_key = "admin"});
  const auto status = [](const Access& access, std::map<std::string, std::string> headers,
                         bool is_administrative = false) {
    return status_of([&] { access.check_key(with(headers), is_administrative); });
  };
  EXPECT_EQ(status(none, {}), 200);
  EXPECT_EQ(status(one, {}), 401);
  for (const char* given : {"Bearer key", "bearer key", "BEARER  key"}) {
    EXPECT_EQ(status(one, {{"authorization", given}}, true), 200) << given;
  }
  EXPECT_EQ(status(one, {{"x-api-key", "key"}}), 200);
  for (const char* given : {"key", "Bearer ke", "Bearer key2", "Bearer", "Basic key"}) {
    EXPECT_EQ(status(one, {{"authorization", given}}), 401) << given;
  }
  EXPECT_EQ(status(two, {{"authorization", "Bearer key"}}), 200);
  EXPECT_EQ(status(two, {{"authorization", "Bearer key"}}, true), 401);
  EXPECT_EQ(status(two, {{"authorization", "Bearer admin"}}), 200);
  EXPECT_EQ(status(two, {{"authorization", "Bearer admin"}}, true), 200);
}

}  // namespace
}  // namespace colossal::server
