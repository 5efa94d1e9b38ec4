// Detects changes of a model folder.
#pragma once

#include <filesystem>
#include <string>

namespace colossal::io {

// Digests of the names, sizes and samples of files: a file that was trained further or converted
// anew has another digest with near certainty.
struct FolderDigest {
  std::string model;          // all files that the model is read from, except chat templates
  std::string chat_template;  // the chat template's files; empty if there are none
};

// Returns the digests of a model folder or a single file. Reads at most 64 KiB per file, so it
// takes milliseconds even for large models. Throws IoError.
FolderDigest folder_digest(const std::filesystem::path& folder);

}  // namespace colossal::io
