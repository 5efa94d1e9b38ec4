// Sends and receives lines of text over a non-blocking TCP connection.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "colossal/base/file_descriptor.h"

namespace colossal::cluster {

class LineSocket {
 public:
  LineSocket() = default;
  // socket: connected and non-blocking. Calls detect_lost_peer().
  explicit LineSocket(FileDescriptor socket);

  int fd() const { return socket_.get(); }
  bool is_open() const { return static_cast<bool>(socket_); }

  // Returns the next complete line received, without the end of line; nullopt if there is none yet.
  // Does not wait. If the peer closes the connection, is lost, or sends a line longer than 64 KiB,
  // the socket is closed and why_closed() returns the reason; lines received before are still
  // returned.
  std::optional<std::string> next_line();
  const std::string& why_closed() const { return why_closed_; }

  // Sends a line; appends the end of line. Does not wait: lines are few and short, so they fit into
  // the kernel's buffer. If a line does not fit, the peer has stopped reading and counts as lost.
  // Does nothing if the socket is closed.
  void send(std::string_view line);

 private:
  void read_available();
  void close(std::string why);

  FileDescriptor socket_;
  std::string input_;  // received, not returned yet
  std::string why_closed_;
};

}  // namespace colossal::cluster
