#include "colossal/base/pipe.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "colossal/base/error.h"

namespace colossal {

Pipe::Pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw IoError(fmt::format("cannot make a pipe: {}", strerror(errno)));
  }
  read_end = FileDescriptor(ends[0]);
  write_end = FileDescriptor(ends[1]);
}

}  // namespace colossal
