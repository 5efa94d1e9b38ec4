#include "colossal/cluster/line_socket.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <utility>
#include <vector>

#include "colossal/cluster/socket.h"

namespace colossal::cluster {
namespace {

std::string line_from(LineSocket& socket) {
  pollfd polled{socket.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 5000), 1);
  return socket.next_line().value();
}

// A connection that is closed with unread bytes is reset, and drops what it has not sent yet.
TEST(LineSocket, AllLinesArriveFromAPeerThatEndsWithoutReading) {
  const FileDescriptor listener = bind_socket("127.0.0.1", 0);
  listen_on(listener);
  LineSocket stays(try_connect("127.0.0.1", "127.0.0.1", bound_port(listener)));
  std::vector<std::string> lines;
  {
    LineSocket ends(accept_connection(listener));
    for (int i = 0; i < 20; ++i) {  // acknowledgements wait for answers then
      stays.send("question");
      EXPECT_EQ(line_from(ends), "question");
      ends.send("answer");
      EXPECT_EQ(line_from(stays), "answer");
    }
    stays.send("unread");
    for (const char* line : {"first", "second", "third"}) ends.send(line);
  }
  while (stays.is_open()) {
    pollfd polled{stays.fd(), POLLIN, 0};
    ASSERT_EQ(poll(&polled, 1, 5000), 1);
    while (auto line = stays.next_line()) lines.push_back(*std::move(line));
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"first", "second", "third"}));
}

}  // namespace
}  // namespace colossal::cluster
