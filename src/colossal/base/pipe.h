// A pipe. Both ends are close-on-exec.
#pragma once

#include "colossal/base/file_descriptor.h"

namespace colossal {

struct Pipe {
  Pipe();  // throws IoError
  FileDescriptor read_end;
  FileDescriptor write_end;
};

}  // namespace colossal
