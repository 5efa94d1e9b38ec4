// Reads the build id of this library or program, by which ranks check that they run the same code.
#pragma once

#include <string>

namespace colossal {

// Returns the GNU build id, in hexadecimal, of the library or program that contains this function.
// The linker computes the id as a hash of the contents, so two builds have the same id only if
// their code is the same. Returns "unknown" if the linker wrote no build id.
std::string build_id();

}  // namespace colossal
