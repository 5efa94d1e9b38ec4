// Lists the files in a tar archive, so that they can be read in any order. Formats: ustar, GNU and
// pax (POSIX.1-2001).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "colossal/io/file.h"

namespace colossal::data {

struct TarMember {
  std::string name;    // with its folders
  int64_t offset = 0;  // of its first byte in the archive
  int64_t size = 0;    // bytes
};

// Calls add(member) for each regular file of the archive, in order. Throws IoError, which names the
// archive, if it is compressed, damaged or incomplete, or has links.
void list_tar(const io::File& archive, const std::function<void(const TarMember&)>& add);

}  // namespace colossal::data
