// Notices that a model's folder has become another one.
#pragma once

#include <filesystem>
#include <string>

namespace colossal::io {

// Returns a digest of a model's folder, or of a single file: of the names, sizes and parts of the
// files that it is read from. It reads at most 64 KiB of a file, so that it costs milliseconds
// whatever the size; a file that was trained further or made anew has another one. Throws IoError.
std::string folder_digest(const std::filesystem::path& folder);

}  // namespace colossal::io
