#include "colossal/cluster/host_messages.h"

#include <gtest/gtest.h>

namespace colossal::cluster {
namespace {

TEST(HostMessages, come_back_as_they_were) {
  const auto hello = parse_hello(to_line(Hello{1, {"a", "b"}, 4}));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->index, 1);
  EXPECT_EQ(hello->hosts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(hello->ranks_per_host, 4);

  const auto start = parse_start(to_line(JobStart{4711, "name", {0, 2}}));
  ASSERT_TRUE(start);
  EXPECT_EQ(start->store_port, 4711);
  EXPECT_EQ(start->job, "name");
  EXPECT_EQ(start->members, (std::vector<int>{0, 2}));

  const auto refusal = parse_refusal(to_line(Refusal{"no", true}));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, "no");
  EXPECT_TRUE(refusal->for_now);
  EXPECT_EQ(parse_end(end_line(75)), 75);
  EXPECT_EQ(parse_done(done_line("name")), "name");
  using Kind = HostMessage::Kind;
  for (const Kind kind : {Kind::stop, Kind::kill, Kind::stopped, Kind::pause, Kind::leave}) {
    const auto message = parse_message(to_line(HostMessage{kind, {}, "name"}));
    ASSERT_TRUE(message);
    EXPECT_EQ(message->kind, kind);
    EXPECT_EQ(message->job, "name");
  }
}

TEST(HostMessages, carry_any_text_on_one_line) {
  const Failure failure{"rank 1", "exited", "two\nlines and \xff", 7, true, "node1"};
  const std::string line = to_line(HostMessage{HostMessage::Kind::failed, failure});
  EXPECT_EQ(line.find('\n'), line.npos);
  const auto message = parse_message(line);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->failure.who, "rank 1");
  EXPECT_EQ(message->failure.event, "exited");
  EXPECT_EQ(message->failure.text, "two\nlines and \xef\xbf\xbd");  // U+FFFD
  EXPECT_EQ(message->failure.exit_code, 7);
  EXPECT_TRUE(message->failure.sudden);
  EXPECT_EQ(message->failure.host, "node1");
}

TEST(HostMessages, nonsense_is_none_of_them) {
  for (const char* line : {"", "GET / HTTP/1.1", "{}", "[]", "7", R"({"kind":"failed"})",
                           R"({"kind":"hello","index":"x","hosts":[],"ranks_per_host":1})",
                           R"({"kind":"start","store_port":{},"job":1})", R"({"kind":7})"}) {
    EXPECT_FALSE(parse_hello(line)) << line;
    EXPECT_FALSE(parse_start(line)) << line;
    EXPECT_FALSE(parse_refusal(line)) << line;
    EXPECT_FALSE(parse_end(line)) << line;
    EXPECT_FALSE(parse_message(line)) << line;
    EXPECT_FALSE(parse_done(line)) << line;
  }
}

}  // namespace
}  // namespace colossal::cluster
