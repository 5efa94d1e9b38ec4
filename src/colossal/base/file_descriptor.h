// FileDescriptor: owns an open POSIX file descriptor, and closes it in the destructor.
#pragma once

#include <unistd.h>

#include <utility>

namespace colossal {

class FileDescriptor {
 public:
  FileDescriptor() = default;                   // owns none
  explicit FileDescriptor(int fd) : fd_(fd) {}  // takes ownership of fd; -1: owns none
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  // Swaps the descriptors: `other` then owns the earlier descriptor of this object.
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { close(); }

  int get() const { return fd_; }  // -1 if this owns none
  // Returns the descriptor without closing it; the caller then owns it.
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }  // whether this owns a descriptor
  // Closes the descriptor; does nothing if this owns none.
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace colossal
