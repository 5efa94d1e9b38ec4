// Notices that a model's folder has become another one.
#pragma once

#include <filesystem>
#include <string>

namespace colossal::io {

// Of the names, sizes and parts of files. A file that was trained further or made anew has another
// one.
struct FolderDigest {
  std::string model;          // of all files that the model is read from, but for
  std::string chat_template;  // those of its chat template; empty: there are none
};

// Returns the digests of a model's folder, or of a single file. It reads at most 64 KiB of each
// file, so that it costs milliseconds whatever their sizes. Throws IoError.
FolderDigest folder_digest(const std::filesystem::path& folder);

}  // namespace colossal::io
