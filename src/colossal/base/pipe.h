// Pipe: a POSIX pipe. Both ends are closed in processes that this process starts by exec().
#pragma once

#include "colossal/base/file_descriptor.h"

namespace colossal {

struct Pipe {
  Pipe();  // opens the pipe; throws IoError
  FileDescriptor read_end;
  FileDescriptor write_end;
};

}  // namespace colossal
