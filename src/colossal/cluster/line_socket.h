// Lines of text over a non-blocking TCP connection.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "colossal/cluster/file_descriptor.h"

namespace colossal::cluster {

class LineSocket {
 public:
  LineSocket() = default;
  explicit LineSocket(FileDescriptor socket);  // connected; watches for the loss of the peer

  int fd() const { return socket_.get(); }
  bool is_open() const { return static_cast<bool>(socket_); }

  // The next whole line that has come, or none. When the peer has closed the connection, is lost,
  // or sends more than a line may have, the socket is closed; why_closed() says which. Lines that
  // came before are still given.
  std::optional<std::string> next_line();
  const std::string& why_closed() const { return why_closed_; }

  // Adds the end of line. Lines are few and short, so they fit the kernel's buffer; a peer that has
  // read nothing for so long that they do not is taken for lost.
  void send(std::string_view line);

 private:
  void read_available();
  void close(std::string why);

  FileDescriptor socket_;
  std::string input_;  // received, not yet given
  std::string why_closed_;
};

}  // namespace colossal::cluster
