// Sends and receives lines of text over a TCP connection without waiting. The launchers of several
// hosts communicate with it (control_channel.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "colossal/base/file_descriptor.h"

namespace colossal::cluster {

class LineSocket {
 public:
  LineSocket() = default;  // a closed socket
  // socket: a connected, non-blocking socket, which becomes one that detects a lost peer
  // and sends at once (detect_lost_peer(), send_at_once() in socket.h).
  explicit LineSocket(FileDescriptor socket);

  int fd() const { return socket_.get(); }  // for poll(); -1 if closed
  bool is_open() const { return static_cast<bool>(socket_); }

  // Returns the next received line, without the end of line; nullopt if no complete line has
  // arrived. Does not wait. Closes the socket if the peer has closed the connection, is lost, or
  // sends a line longer than 64 KiB; lines that arrived before are still returned.
  std::optional<std::string> next_line();
  // Returns why the socket was closed; empty if it is open or was closed from the beginning.
  const std::string& why_closed() const { return why_closed_; }

  // Sends `line` and an end of line. Does not wait, because lines are few and short enough for the
  // kernel's buffer. If a line does not fit, the peer has stopped reading, and send() closes the
  // socket. Does nothing if the socket is closed.
  void send(std::string_view line);

 private:
  void read_available();  // appends to input_ what has arrived
  void close(std::string why);

  FileDescriptor socket_;
  std::string input_;  // received bytes that next_line() has not returned yet
  std::string why_closed_;
};

}  // namespace colossal::cluster
