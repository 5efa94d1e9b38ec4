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
  explicit LineSocket(FileDescriptor socket);  // socket: connected; enables detect_lost_peer()

  int fd() const { return socket_.get(); }
  bool is_open() const { return static_cast<bool>(socket_); }

  // Returns the next complete line received, or nullopt. If the peer closes the connection, is
  // lost, or sends a line that is too long, the socket is closed and why_closed() returns the
  // reason. Lines received earlier are still returned.
  std::optional<std::string> next_line();
  const std::string& why_closed() const { return why_closed_; }

  // Sends a line; appends the end of line. Lines are few and short, so they fit the kernel's
  // buffer. If a line does not fit, the peer has stopped reading and counts as lost.
  void send(std::string_view line);

 private:
  void read_available();
  void close(std::string why);

  FileDescriptor socket_;
  std::string input_;  // received, not returned yet
  std::string why_closed_;
};

}  // namespace colossal::cluster
