// Which build of Colossal this is.
#pragma once

#include <string>

namespace colossal {

// The GNU build id, in hexadecimal, of the library or program that holds this function: the
// linker's hash of its contents, so that two builds have the same id only where their code is the
// same. "unknown" where the linker has left none.
std::string build_id();

}  // namespace colossal
