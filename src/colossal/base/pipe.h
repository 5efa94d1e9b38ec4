// Pipe: a POSIX pipe. Both ends have the flag O_CLOEXEC: exec() closes them.
#pragma once

#include "colossal/base/file_descriptor.h"

namespace colossal {

struct Pipe {
  Pipe();  // opens the pipe; throws IoError
  FileDescriptor read_end;
  FileDescriptor write_end;
};

}  // namespace colossal
