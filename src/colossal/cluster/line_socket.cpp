#include "colossal/cluster/line_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "colossal/cluster/socket.h"

namespace colossal::cluster {
namespace {

constexpr size_t kMaxLine = 1 << 16;

}  // namespace

LineSocket::LineSocket(FileDescriptor socket) : socket_(std::move(socket)) {
  detect_lost_peer(socket_);
  send_at_once(socket_);
}

std::optional<std::string> LineSocket::next_line() {
  if (is_open()) read_available();
  const size_t end = input_.find('\n');
  if (end == input_.npos) {
    if (input_.size() >= kMaxLine) close("it sent a line that is too long");
    return std::nullopt;
  }
  std::string line = input_.substr(0, end);
  input_.erase(0, end + 1);
  return line;
}

void LineSocket::read_available() {
  char buffer[4096];
  while (input_.size() < kMaxLine) {
    const ssize_t size = recv(fd(), buffer, sizeof buffer, 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size < 0) return close(strerror(errno));
    if (size == 0) return close("it closed the connection");
    input_.append(buffer, size);
  }
}

void LineSocket::send(std::string_view line) {
  if (!is_open()) return;
  const std::string text = std::string(line) + "\n";
  const ssize_t size = ::send(fd(), text.data(), text.size(), MSG_NOSIGNAL);
  if (size == static_cast<ssize_t>(text.size())) return;
  read_available();  // finds out why the peer has closed the connection
  if (is_open()) close("it accepts no more messages");
}

void LineSocket::close(std::string why) {
  why_closed_ = std::move(why);
  socket_.close();
}

}  // namespace colossal::cluster
