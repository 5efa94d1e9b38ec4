// Detects changes of a model folder.
#pragma once

#include <filesystem>
#include <string>

namespace colossal::io {

// Returns a digest of a model folder or a single file: of the names, sizes and samples of the
// model's files. Reads at most 64 KiB per file, so it takes milliseconds even for large models, and
// differs after further training or a new conversion. Throws IoError.
std::string folder_digest(const std::filesystem::path& folder);

}  // namespace colossal::io
