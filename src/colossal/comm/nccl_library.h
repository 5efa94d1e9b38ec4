// Finds NCCL at run time, so that every build can use it.
#pragma once

#include <string>

#include "colossal/comm/nccl_interface.h"

namespace colossal::comm {

// Returns NCCL's functions: of the libnccl.so.2 that the process has loaded already, such as
// LibTorch's, or else of the one that the system's loader finds. Throws ConfigError if there is
// none, or if it is older than 2.18.
const nccl::Functions& nccl_functions();

// Returns what NCCL says about a failure. communicator: may be null.
std::string describe(nccl::Result result, nccl::Communicator communicator);

}  // namespace colossal::comm
